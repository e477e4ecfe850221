"""What a log knows of its own cleaning: from where it is dirty, and which results are void.

In: truncations, a raised log start, a changed policy, the ends of passes. Out: a generation, the
first dirty offset. Never: a file; ``LogCheckpoints`` writes the offset.
"""

from __future__ import annotations

from broker.config.views import TopicConfig


class CleaningState:
    """Invariant: ``generation`` only rises, and does whenever the log is shortened or its policy
    changes: what a pass of an older one made is made of another log. ``first_dirty_offset`` is
    never above an offset at which the log was truncated since: of what was appended there instead,
    no key was collected, so that a tombstone would go before the value it deletes."""

    __slots__ = ("_policy", "first_dirty_offset", "generation", "live_records")

    def __init__(self) -> None:
        self._policy: tuple[bool, bool] | None = None
        self.generation = 0
        self.first_dirty_offset = 0
        self.live_records = 0
        """What the last whole pass kept; 0 before the first one of this process."""

    def restore(self, first_dirty_offset: int, end_offset: int) -> None:
        """The checkpoint's offset at a start. The log may end before it: then it was truncated, and
        the process died before the checkpoint was written."""
        self.first_dirty_offset = max(min(first_dirty_offset, end_offset), 0)

    def reconfigure(self, config: TopicConfig) -> None:
        """Apply new settings."""
        policy = (config.compacted, config.deletes)
        if self._policy not in (None, policy):
            self.generation += 1
        self._policy = policy

    def on_truncated(self, end_offset: int) -> None:
        """The log ends there now."""
        self.generation += 1
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)

    def on_shortened(self) -> None:
        """Segments at the log's start are gone."""
        self.generation += 1

    def on_start_raised(self, log_start_offset: int) -> None:
        """The log begins there now."""
        if log_start_offset > self.first_dirty_offset:
            self.generation += 1

    def on_cleaned(self, next_dirty_offset: int, live_records: int) -> None:
        """A pass of this generation has ended."""
        self.first_dirty_offset = next_dirty_offset
        self.live_records = live_records
