"""What retention deletes, and what it must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.disk.real import RealDisk
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.retention import delete_old_segments
from bus.errors import ErrorCode

NOW_MS = 1_760_000_000_000
DAY_MS = 86_400_000
MakeLog = Callable[..., Log]
Batch = Callable[..., bytearray]


def fill(log: Log, batch: Batch, ages_ms: list[int]) -> None:
    """One segment per batch, the record as old as said."""
    for age_ms in ages_ms:
        log.append(batch(1, size=100, timestamp_ms=NOW_MS - age_ms), leader_epoch=0, now_ms=NOW_MS)
        log.roll(NOW_MS)
    log.advance_high_watermark(log.end_offset)


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments.all]


def test_segments_older_than_the_retention_time_go_oldest_first(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    log = make_log(retention_ms=DAY_MS)
    fill(log, batch, [3 * DAY_MS, 2 * DAY_MS, 1000, 2 * DAY_MS])
    paths = delete_old_segments(log, RealDisk(), NOW_MS)
    assert bases(log) == [2, 3, 4]
    assert log.log_start_offset == 2
    assert all(path.endswith(".deleted") and Path(path).exists() for path in paths)
    assert not Path(f"{fast_dir}/t-0/{0:020d}.log").exists()
    with pytest.raises(LogError) as caught:
        log.read(1, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_in_excess_of_the_size_go_but_never_below_it(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log(retention_bytes=2 * 172 + 10)
    fill(log, batch, [0] * 5)
    assert log.size_bytes == 5 * log.segments.first.size_bytes
    log.config = type(log.config)(retention_bytes=2 * log.segments.first.size_bytes + 10)
    delete_old_segments(log, RealDisk(), NOW_MS)
    assert bases(log) == [2, 3, 4, 5]


def test_an_expired_active_segment_is_rolled_and_goes_too(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(retention_ms=DAY_MS)
    for _ in range(3):
        log.append(batch(1, timestamp_ms=NOW_MS - 2 * DAY_MS), leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(3)
    delete_old_segments(log, RealDisk(), NOW_MS)
    assert (bases(log), log.log_start_offset, log.end_offset) == ([3], 3, 3)
    assert log.append(batch(1), leader_epoch=0, now_ms=NOW_MS).base_offset == 3


def test_what_followers_do_not_have_yet_stays(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(retention_ms=DAY_MS)
    fill(log, batch, [2 * DAY_MS] * 3)
    log.high_watermark = 1
    delete_old_segments(log, RealDisk(), NOW_MS)
    assert bases(log)[0] == 1


def test_a_compacted_topic_is_never_cut_by_age_or_size(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(retention_ms=1, retention_bytes=1, compacted=True, deletes=False)
    fill(log, batch, [5 * DAY_MS] * 3)
    assert delete_old_segments(log, RealDisk(), NOW_MS) == []
    assert bases(log) == [0, 1, 2, 3]


def test_a_topic_with_both_policies_is_cut(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(retention_ms=1, compacted=True, deletes=True)
    fill(log, batch, [DAY_MS] * 3)
    delete_old_segments(log, RealDisk(), NOW_MS)
    assert log.log_start_offset == 3


def test_deleted_records_give_back_whole_segments_and_stay_deleted_after_a_restart(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log(retention_ms=-1)
    for _ in range(3):
        for _ in range(2):
            log.append(batch(2), leader_epoch=0, now_ms=NOW_MS)
        log.roll(NOW_MS)
    log.advance_high_watermark(log.end_offset)
    assert log.delete_records_before(6) == 6
    assert log.delete_records_before(2) == 6
    delete_old_segments(log, RealDisk(), NOW_MS)
    assert (bases(log), log.log_start_offset) == ([4, 8, 12], 6)
    with pytest.raises(LogError):
        log.delete_records_before(13)
    log.release()
    again = make_log(log_start_offset=6)
    assert (again.log_start_offset, again.end_offset) == (6, 12)


def test_nothing_is_deleted_without_a_reason(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(retention_ms=-1, retention_bytes=-1)
    fill(log, batch, [9000 * DAY_MS])
    assert delete_old_segments(log, RealDisk(), NOW_MS) == []
