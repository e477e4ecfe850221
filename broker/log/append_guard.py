"""Whether a log takes appends now: the reasons to refuse them, in one place.

In: truncations on their way to the device, the topic's settings. Out: LogError. Never: how long a
truncation takes; who writes.
"""

from __future__ import annotations

from broker.config.views import TopicConfig
from broker.log.errors import LogError, read_only
from bus.errors import ErrorCode


class AppendGuard:
    """Invariant: ``is_closed`` iff a block is held or the topic is read-only: one test on the way
    of every append of a producer covers all reasons to refuse it."""

    __slots__ = ("_blocks", "_is_read_only", "_source", "_topic", "is_closed")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._blocks = 0
        self._is_read_only = False
        self._source = ""
        self.is_closed = False

    def reconfigure(self, config: TopicConfig) -> None:
        """Apply new settings."""
        self._is_read_only = config.is_read_only
        self._source = config.mirror_source_cluster_id
        self._set()

    def block(self) -> None:
        """Refuse appends until ``unblock`` was called as often: the disk's record of the log is
        being corrected, and a loss of power in between would mix old and new."""
        self._blocks += 1
        self._set()

    def unblock(self) -> None:
        """See ``block``."""
        self._blocks -= 1
        self._set()

    @property
    def is_blocked(self) -> bool:
        """Whether appends are refused for now."""
        return self._blocks > 0

    def check_not_blocked(self) -> None:
        """A leader that was a follower a moment ago answers as if it did not lead yet."""
        if self._blocks:
            raise LogError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "what was cut off is not off the disk yet"
            )

    def refuse(self) -> None:
        """Raise the reason; ``is_closed``."""
        self.check_not_blocked()
        raise read_only(self._topic, self._source)

    def _set(self) -> None:
        self.is_closed = self._blocks > 0 or self._is_read_only
