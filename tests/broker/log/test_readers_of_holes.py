"""Whatever reads a log finds in a cleaned one what is there, and calls no hole damage."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.disk.real import RealDisk
from broker.log.audit import Damage, audit
from broker.log.cold_reads import ColdReads
from broker.log.digest import DigestRange, LogDigests
from broker.log.log import Log
from broker.log.segment import Segment
from broker.log.timestamps import TimestampOffset
from broker.log.verify import VerifyResult, verify
from bus.records.batch import header_at, iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from tests.broker.log.cleaned_log import (
    NOW_MS,
    STEP_MS,
    Batches,
    batches_of,
    clean,
    fill,
    last_values,
    topic_config,
)
from tests.broker.log.lookups import first_at_or_after, with_largest_timestamp

SEEDS = range(6)


class HoledLog:
    """A log that was written and cleaned, and its batches."""

    def __init__(self, directory: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.disk = RealDisk()
        self.config = topic_config(self.dice)
        self.log = self.open("t-0")
        self.epoch = fill(self.log, self.dice, 60)
        self.before = batches_of(self.log)
        clean(self.log, self.disk, self.dice)
        self.batches = batches_of(self.log)
        assert len(self.batches) < len(self.before)

    def open(self, name: str, *, clean: bool = False, recovery_point: int = 0) -> Log:
        directory = f"{self.root}/{name}"
        return Log(
            directory, disk=self.disk, config=self.config, now_ms=NOW_MS, clean=clean,
            recovery_point=recovery_point,
        )  # fmt: skip

    root = ""


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed {seed}")
def holed(request: pytest.FixtureRequest) -> Iterator[HoledLog]:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    directory = tempfile.mkdtemp(prefix="databus-holes-", dir=base)
    HoledLog.root = directory
    yield HoledLog(directory, request.param)
    shutil.rmtree(directory, ignore_errors=True)


def offsets_around(batches: Batches) -> list[int]:
    """Where batches begin and end, and the middle of every hole and batch."""
    found = {0}
    end = 0
    for header, _ in batches:
        found |= {header.base_offset, header.last_offset, header.end_offset}
        found |= {(end + header.base_offset) // 2, (header.base_offset + header.end_offset) // 2}
        end = header.end_offset
    return sorted(found)


def test_a_read_from_any_offset_begins_with_the_next_batch_there_is(holed: HoledLog) -> None:
    """Inside a hole, at its ends, inside a batch that lost its records."""
    for offset in offsets_around(holed.batches):
        wanted = next((h for h, _ in holed.batches if h.end_offset > offset), None)
        data = holed.log.read(offset, 1, min_one=True).data
        assert (header_at(data) if len(data) else None) == wanted, offset


def test_what_is_readable_up_to_any_offset_is_the_bytes_of_the_batches_between(
    holed: HoledLog,
) -> None:
    """What a fetch waits for: bytes that are there, not offsets. A high watermark, or a last stable
    offset, may lie in a hole as well."""
    bounds = offsets_around(holed.batches)
    for _ in range(60):
        first, upper = sorted(holed.dice.sample(bounds, 2))
        wanted = [h for h, _ in holed.batches if h.end_offset > first and h.end_offset <= upper]
        split = [h for h, _ in holed.batches if h.base_offset < upper < h.end_offset]
        size = sum(header.size_bytes for header in wanted)
        assert holed.log.readable_bytes(first, upper) == size, (first, upper, split)
        read, at = 0, first
        while len(data := holed.log.read(at, 1 << 20, upper_offset=upper).data):
            read += len(data)
            at = [header.end_offset for _, header in iter_batches(data)][-1]
        assert read == size


def test_times_find_records_that_are_there(holed: HoledLog) -> None:
    """A batch without records still has its newest time in its header, and one whose first records
    are gone the time of all of them: ListOffsets named an offset at which nothing is."""
    records = [
        TimestampOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
        for header, data in holed.batches
        for record in read_records(data)
    ]
    times = {one.timestamp_ms + delta for one in records for delta in (-1, 0, 1)}
    for wanted_ms in [0, *times, NOW_MS + 100 * STEP_MS]:
        expected = next((one for one in records if one.timestamp_ms >= wanted_ms), None)
        assert first_at_or_after(holed.log, wanted_ms) == expected, wanted_ms
    newest_ms = max(one.timestamp_ms for one in records)
    assert with_largest_timestamp(holed.log) == next(
        one for one in records if one.timestamp_ms == newest_ms
    )


def test_a_follower_copies_the_holes(holed: HoledLog) -> None:
    """Batch by batch or many at once: the same bytes, the same end, and the same answers to
    OffsetsForLeaderEpoch wherever an epoch has batches left."""
    follower = holed.open("t-1")
    while follower.end_offset < holed.log.end_offset:
        size = holed.dice.choice((1, 300, 5000))
        follower.append_as_follower(
            bytes(holed.log.read(follower.end_offset, size, min_one=True).data), NOW_MS
        )
    assert batches_of(follower) == holed.batches
    for epoch in {header.partition_leader_epoch for header, _ in holed.batches}:
        ours, theirs = (log.end_offset_for_epoch(epoch) for log in (follower, holed.log))
        assert ours.epoch == theirs.epoch == epoch
        between = range(*sorted((ours.end_offset, theirs.end_offset)))
        assert not any(header.base_offset in between for header, _ in holed.batches)


def test_a_follower_that_is_truncated_into_a_hole_copies_on_and_has_the_last_values(
    holed: HoledLog,
) -> None:
    """Its own log is not cleaned; the leader's answers for an epoch may lie in a hole."""
    follower = holed.open("t-1")
    for _, data in holed.before:
        follower.append_as_follower(data, NOW_MS)
    offset = holed.dice.choice(offsets_around(holed.batches))
    follower.truncate_to(offset, NOW_MS)
    assert follower.end_offset <= offset
    while follower.end_offset < holed.log.end_offset:
        data = bytes(holed.log.read(follower.end_offset, 1000, min_one=True).data)
        follower.append_as_follower(data, NOW_MS)
    assert last_values(batches_of(follower)) == last_values(holed.batches)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_cut_anywhere_leaves_the_batches_before_it_and_so_does_the_next_start(
    holed: HoledLog, is_clean: bool
) -> None:
    """In a hole, in a batch without records, at the begin of a cleaned segment."""
    offset = holed.dice.choice(offsets_around(holed.batches))
    left = [one for one in holed.batches if one[0].end_offset <= offset]
    holed.log.truncate_to(offset, NOW_MS)
    assert batches_of(holed.log) == left
    assert holed.log.end_offset == max((h.end_offset for h, _ in left), default=0)
    end, point = holed.log.end_offset, holed.log.recovery_point
    if is_clean:
        holed.log.close()
    else:
        holed.log.release()
    again = holed.open("t-0", clean=is_clean, recovery_point=point)
    assert batches_of(again) == left
    assert again.end_offset == end


@pytest.mark.parametrize("point", ["flushed", "lost"])
def test_after_a_kill_everything_is_there(holed: HoledLog, point: str) -> None:
    """Whether the recovery point is known or not: the last batch of a cleaned segment says where it
    ends."""
    holed.log.release()
    recovery_point = holed.log.recovery_point if point == "flushed" else 0
    again = holed.open("t-0", recovery_point=recovery_point)
    assert batches_of(again) == holed.batches
    assert again.end_offset == holed.log.end_offset
    assert again.truncated_bytes == 0
    for offset in offsets_around(holed.batches):
        assert len(again.read(offset, 1).data) == len(holed.log.read(offset, 1).data)


def test_records_deleted_up_to_a_hole_leave_what_follows_it(holed: HoledLog) -> None:
    """DeleteRecords names any offset; the log then begins there, and a follower copies from
    there."""
    offset = holed.dice.choice(offsets_around(holed.batches))
    start = holed.log.delete_records_before(offset)
    assert start == offset
    follower = holed.open("t-1")
    follower.truncate_fully_and_start_at(start, NOW_MS)
    while follower.end_offset < holed.log.end_offset:
        follower.append_as_follower(
            bytes(holed.log.read(follower.end_offset, 2000, min_one=True).data), NOW_MS
        )
    wanted = [one for one in holed.batches if one[0].end_offset > offset]
    assert batches_of(follower) == wanted


def test_a_scrub_and_a_verification_find_no_damage_and_read_every_batch(holed: HoledLog) -> None:
    count = 0
    for segment in holed.log.segments.all:
        for one in audit(segment.file, segment.size_bytes, segment.base_offset,
                         end_offset=segment.end_offset, records=True):  # fmt: skip
            assert not isinstance(one, Damage), str(one)
            count += 1
    [outcome] = verify(holed.disk, HoledLog.root, records=True, pause=lambda: None)
    assert outcome.damaged == []
    assert outcome.batches == count == len(holed.batches)


@pytest.mark.parametrize("field", ["base offset", "contents"])
def test_damage_between_holes_is_named(holed: HoledLog, field: str) -> None:
    """A base offset that is not between its neighbours' is damage, though offsets are missing
    beside it."""
    segment, position = damaged_batch(holed)
    path = Path(segment.path)
    data = bytearray(path.read_bytes())
    if field == "contents":
        data[position + 40] ^= 8
    else:
        data[position : position + 8] = (segment.end_offset + 5).to_bytes(8, "big")
    path.write_bytes(data)
    [outcome] = verify(holed.disk, HoledLog.root, records=True, pause=lambda: None)
    assert [one.position for one in outcome.damaged] == [position]
    assert outcome.batches == len(holed.batches) - 1


def damaged_batch(holed: HoledLog) -> tuple[Segment, int]:
    """A batch of a closed segment."""
    segment = holed.dice.choice(holed.log.segments.all[:-1])
    data = bytes(segment.read_bytes(0, segment.size_bytes))
    return segment, holed.dice.choice([at for at, _ in iter_batches(data)])


def test_a_segment_that_is_replaced_while_a_directory_is_verified_is_no_damage(
    holed: HoledLog,
) -> None:
    """Its file then holds batches of those behind it: they were called misplaced."""
    live = HoledLog.__new__(HoledLog)
    live.__dict__.update(holed.__dict__)
    live.log = live.open("u-0")
    fill(live.log, live.dice, 60)

    class SlowDisk(RealDisk):
        """The cleaner swaps between the listing of a directory and the reading of its files."""

        is_cleaned = False

        def listdir(self, path: str) -> list[str]:
            names = super().listdir(path)
            if path.endswith("u-0") and not self.is_cleaned:
                self.is_cleaned = True
                clean(live.log, live.disk, live.dice)
            return names

    disk = SlowDisk()
    found: list[VerifyResult] = list(
        verify(disk, HoledLog.root, records=True, pause=lambda: None, wanted=lambda t: t == "u")
    )
    assert disk.is_cleaned
    assert [outcome.damaged for outcome in found] == [[]]


def test_digests_cover_the_batches_that_are_there(holed: HoledLog) -> None:
    """Block by block; an offset in a hole begins with the next batch, and the range is done at its
    end though no batch ends there."""

    async def digested(wanted: DigestRange) -> None:
        clock = RealClock()
        digests = LogDigests(holed.disk, clock, ColdReads(holed.disk, clock))
        done = asyncio.Event()
        digests.begin([(holed.log, wanted)], done.set)
        await done.wait()
        await digests.stop()

    first, end = sorted(holed.dice.sample(offsets_around(holed.batches), 2))
    wanted = DigestRange(first, end, 10, 1 << 20)
    asyncio.run(digested(wanted))
    inside = [h for h, _ in holed.batches if first <= h.base_offset < end]
    assert wanted.fault == ""
    assert sum(block.batches for block in wanted.blocks) == len(inside)
    assert sum(block.records for block in wanted.blocks) == sum(h.records_count for h in inside)
    assert wanted.next_offset >= end


def test_a_batch_without_records_is_no_record_with_a_time(make_log: Callable[..., Log]) -> None:
    """With the time of its append all records of a batch have one time: of a batch that has none
    left, ListOffsets named the first offset."""
    log = make_log()
    emptied = build_batch(
        [], base_timestamp=NOW_MS, log_append_time_ms=NOW_MS, last_offset_delta=4
    )
    kept = build_batch(
        [Record(b"k", b"v", offset=8)], base_offset=5, log_append_time_ms=NOW_MS + 1,
        last_offset_delta=4,
    )  # fmt: skip
    for data in (emptied, kept):
        log.append_as_follower(data, NOW_MS)
    assert first_at_or_after(log, 0) == TimestampOffset(NOW_MS + 1, 8, -1)
    assert with_largest_timestamp(log) == TimestampOffset(NOW_MS + 1, 8, -1)
