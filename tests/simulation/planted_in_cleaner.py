"""Bugs to plant in the cleaner: each breaks one promise of it.

In: a pytest monkeypatch. Out: a cleaner that is wrong in one place. Never: used outside of tests of
the checkers (`one_log`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from broker.log.cleaner import log_cleaner, plan
from broker.log.cleaner.cleaning_run import CleaningRun
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.cleaner.model import CleanedGroup, CompactedLog
from broker.log.cleaner.retention import Retention
from broker.log.cleaning_state import CleaningState
from broker.log.log import Log
from broker.log.log_checkpoints import LogCheckpoints
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from broker.log.segment import Segment
from broker.log.segments import PendingTruncation, force_truncation

Plant = Callable[[pytest.MonkeyPatch], None]


def tombstones_go_too_early(patch: pytest.MonkeyPatch) -> None:
    """In the first pass that meets them, with the values that they delete."""
    kept_records = Retention._kept_records

    def wrong(self: Retention, piece: Any, verdicts: Any) -> Any:
        kept = kept_records(self, piece, verdicts)
        is_data = ~verdicts.is_control[piece.records.batch]
        return np.where(is_data, kept & piece.records.has_value, kept)

    patch.setattr(Retention, "_kept_records", wrong)


def last_sequences_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A producer's newest batches go with their records."""

    async def wrong(self: LogCleaner, partition: Log) -> list[Any]:
        return []

    patch.setattr(LogCleaner, "_producers", wrong)


def results_of_an_older_generation_are_taken(patch: pytest.MonkeyPatch) -> None:
    """Whatever has become of the log meanwhile, the segments that begin where the old ones began
    are replaced."""
    patch.setattr(CleaningRun, "is_current", property(lambda self: True))

    def wrong(self: CleaningRun, group: CleanedGroup) -> list[Segment]:
        now = self._ports._logs.get(self.partition.topic, self.partition.index)  # type: ignore[attr-defined]
        self.partition = now
        span = range(group.base_offset, group.end_offset)
        return [one for one in now.segments.all[:-1] if one.base_offset in span] or [
            now.segments.all[0]
        ]

    patch.setattr(CleaningRun, "_named", wrong)


def the_checkpoint_stays_above_a_truncation(patch: pytest.MonkeyPatch) -> None:
    """Of what is written where the log was cut, no key is collected: its tombstones go before the
    values that they delete."""

    def wrong(self: CleaningState, end_offset: int) -> None:
        self.generation += 1

    patch.setattr(CleaningState, "on_truncated", wrong)


def the_written_checkpoint_stays_above_a_truncation(patch: pytest.MonkeyPatch) -> None:
    """The same once the process has died."""
    on_truncated = LogCheckpoints.on_truncated

    def wrong(self: LogCheckpoints, partition: Log) -> None:
        self._first_dirty.pop((partition.topic, partition.index), None)
        on_truncated(self, partition)

    patch.setattr(LogCheckpoints, "on_truncated", wrong)


def appends_do_not_wait_for_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """After a truncation: the process may die before the file is written."""

    async def wrong(self: LogManager, partition: Log, truncation: PendingTruncation) -> None:
        home = parent_of(partition)
        forced = (force_truncation, self.disk, partition.directory, truncation)
        await self.disk.run(*forced, worker=home)
        partition.guard.unblock()
        self.checkpoints.on_truncated(partition)
        await self.checkpoint_writer.until_written(home)

    patch.setattr(LogManager, "finish_truncation", wrong)


def records_above_the_watermark_are_cleaned(patch: pytest.MonkeyPatch) -> None:
    """What is not committed replaces what is."""
    _with_bounds(patch, high_watermark=1 << 40)


def records_above_the_last_stable_offset_are_cleaned(patch: pytest.MonkeyPatch) -> None:
    """What may be aborted replaces what is committed."""
    _with_bounds(patch, last_stable_offset=1 << 40)


def _with_bounds(patch: pytest.MonkeyPatch, **bounds: int) -> None:
    dirty_log = plan.dirty_log

    def wrong(log: CompactedLog, now_ms: int) -> plan.DirtyLog:
        if "high_watermark" in bounds:
            bounds["last_stable_offset"] = (
                log.last_stable_offset if log.last_stable_offset < log.high_watermark else 1 << 40
            )
        return dirty_log(msgspec.structs.replace(log, **bounds), now_ms)

    patch.setattr(log_cleaner, "dirty_log", wrong)
    patch.setattr(plan, "dirty_log", wrong)


PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        tombstones_go_too_early,
        last_sequences_are_lost,
        results_of_an_older_generation_are_taken,
        the_checkpoint_stays_above_a_truncation,
        the_written_checkpoint_stays_above_a_truncation,
        appends_do_not_wait_for_the_checkpoint,
        records_above_the_watermark_are_cleaned,
        records_above_the_last_stable_offset_are_cleaned,
    )
}
