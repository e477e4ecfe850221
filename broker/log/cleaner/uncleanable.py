"""Partitions that the cleaner leaves alone for now: damaged ones, and those of a full disk.

In: failures of passes, the logs as they are. Out: whether a log may be tried. Never: a partition
given up for good, or another one stopped by it: in Apache Kafka one such segment has ended the only
cleaner thread of whole clusters.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import NamedTuple

from broker.log.checkpoint import TopicPartition
from broker.log.cleaner.model import CompactedLog
from broker.log.log import Log
from broker.log.log_dirs import parent_of

log = logging.getLogger("broker.log")

FULL_DISK_REST_MS = 60_000
"""How long a directory whose disk is full rests: cleaning takes room before it gives any."""

MIN_REST_MS = 1_000
"""After a pass that came to nothing by no fault of its log (a killed process, a truncation)."""


MOST_REASON_CHARACTERS = 300
"""Of what is told beside the log: a reason is a label of a metric there."""


class CleaningFault(StrEnum):
    """What kind of thing keeps a log from being cleaned: it says what a person can do."""

    DAMAGED = "damaged"
    """A segment's bytes are wrong."""
    UNREADABLE = "unreadable"
    """The disk refuses a file of it."""
    BUG = "bug"
    """Of the cleaner, or a log of which it cannot be told: its order would be too long."""


class UncleanableLog(NamedTuple):
    """Why a log cannot be cleaned, since when, and of which state of it that is true."""

    fault: CleaningFault
    reason: str
    since_ms: int
    state: tuple[object, ...]

    @property
    def short_reason(self) -> str:
        """One line: of a trace the last one."""
        *_, last = self.reason.strip().splitlines() or [""]
        return last[:MOST_REASON_CHARACTERS]


class UncleanableLogs:
    """Invariant: a log is tried again once its closed segments, its settings or its generation
    differ from those with which it failed. It stays marked, since its first failure, until a pass
    over it has ended well, nothing of it is to be cleaned any more, or it is gone."""

    def __init__(self) -> None:
        self._failed: dict[TopicPartition, UncleanableLog] = {}
        self._rests_until_ms: dict[TopicPartition | str, int] = {}

    def may_clean(self, found: CompactedLog, now_ms: int) -> bool:
        """Whether a log may be tried."""
        key = (found.topic, found.index)
        failed = self._failed.get(key)
        if failed is not None and failed.state == _state(found):
            return False
        home = found.directory.rpartition("/")[0]
        return all(self._rests_until_ms.get(one, now_ms) <= now_ms for one in (key, home))

    def mark(
        self, found: CompactedLog, fault: CleaningFault, reason: str, now_ms: int
    ) -> None:
        """It cannot be cleaned until it changes."""
        key = (found.topic, found.index)
        before = self._failed.get(key)
        since_ms = now_ms if before is None else before.since_ms
        self._failed[key] = UncleanableLog(fault, reason, since_ms, _state(found))
        log.error("%s cannot be cleaned, and is tried again once its segments or its settings "
                  "change: %s", found.directory, reason)  # fmt: skip

    def rest(self, found: CompactedLog, now_ms: int) -> None:
        """Not this moment."""
        self._rests_until_ms[found.topic, found.index] = now_ms + MIN_REST_MS

    def rest_directory(self, directory: str, now_ms: int) -> None:
        """The disk is full: old segments stay, and readers and producers lose nothing by that."""
        self._rests_until_ms[directory] = now_ms + FULL_DISK_REST_MS
        log.error("the disk of %s is full: its compacted logs stay as they are, and are cleaned "
                  "once there is room", directory)  # fmt: skip

    def on_cleaned(self, found: CompactedLog) -> None:
        """A pass has ended well."""
        self._failed.pop((found.topic, found.index), None)
        self._rests_until_ms.pop((found.topic, found.index), None)

    def on_nothing_dirty(self, found: CompactedLog) -> None:
        """What could not be cleaned may have been cut off."""
        failed = self._failed.get((found.topic, found.index))
        if failed is not None and failed.state != _state(found):
            del self._failed[found.topic, found.index]

    def keep_only(self, here: set[TopicPartition]) -> None:
        """Forget logs that are gone."""
        self._failed = {key: one for key, one in self._failed.items() if key in here}
        rests = self._rests_until_ms.items()
        self._rests_until_ms = {k: at for k, at in rests if isinstance(k, str) or k in here}

    # --- asked from outside ----------------------------------------------------------------------

    @property
    def marked(self) -> dict[TopicPartition, UncleanableLog]:
        """By partition, those marked first first."""
        return dict(self._failed)

    def is_marked(self, key: TopicPartition) -> bool:
        """Whether a partition cannot be cleaned."""
        return key in self._failed

    def of_directory(self, logs: list[Log], directory: str) -> list[Log]:
        """Those in one log directory."""
        here = (one for one in logs if (one.topic, one.index) in self._failed)
        return [one for one in here if parent_of(one) == directory]


def _state(found: CompactedLog) -> tuple[object, ...]:
    closed = tuple((one.base_offset, one.size_bytes) for one in found.segments[:-1])
    return found.directory, found.generation, closed, found.settings
