"""Segments replaced by one: whatever dies, and wherever, the log holds the old ones or the new one."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.config.views import TopicConfig
from broker.disk.port import DiskError, DiskFull
from broker.log.cold_reads import ColdReads
from broker.log.digest import DigestRange, LogDigests
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.replacement import replace_segments
from broker.log.replacement_files import Span, write_cleaned
from broker.log.retention import delete_old_segments
from broker.log.segment import Segment
from broker.log.txnindex import AbortedTransaction
from bus.records.batch import Buffer, iter_batches
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.read import read_all
from bus.records.record import Record
from bus.records.retain import retain
from tests.broker.log.lookups import first_at_or_after
from tests.simulation.disk import ENOSPC, Killed, ProcessDisk, SimDisk, input_output_error
from tests.simulation.loop import ProcessLife

NOW_MS = 1_760_000_000_000
CONFIG = replace(TopicConfig(), segment_bytes=600, index_interval_bytes=0)
ROLLS = 5
POWER_CUTS = 3
STEPS = 60
EVERY_CALL = ("every",)
"""More than there are operations of the disk in one replacement."""

GROUP = slice(1, 4)
INSIDE = 29
"""In the second of the segments that are replaced."""

Records = list[tuple[int, bytes | None]]


class LogMachine:
    """A log of five segments on a disk in memory, of which three are to be replaced: of each four
    records one stays."""

    def __init__(self, group: slice = GROUP) -> None:
        self.sim = SimDisk("m", random.Random(1), lambda: NOW_MS)
        self.boot()
        self.disk.mkdirs("/d")
        self.log = self.open()
        for number in range(ROLLS * 3):
            self.put(4)
            if number % 3 == 2:
                self.log.roll(NOW_MS)
        self.put(2)
        self.abort_a_transaction()
        self.log.flush()
        self.log.advance_high_watermark(self.log.end_offset)
        self.before = records_of(self.log)
        self.group = self.log.segments.all[group]
        self.span = Span(self.group[0].base_offset, self.log.segments.all[group.stop].base_offset)
        self.after = [one for one in self.before if is_kept(one[0], self.span)]
        self.write()

    def boot(self) -> None:
        """A new process."""
        self.disk = ProcessDisk(self.sim, ProcessLife("broker"), random.Random(1))

    def open(self, **checkpoints: Any) -> Log:
        return Log("/d/t-0", disk=self.disk, config=CONFIG, now_ms=NOW_MS, **checkpoints)

    def put(self, count: int) -> None:
        records = [Record(b"k", b"v%d" % n, timestamp_ms=NOW_MS + n) for n in range(count)]
        self.log.append(build_batch(records), leader_epoch=3, now_ms=NOW_MS)

    def abort_a_transaction(self) -> None:
        batch = build_batch([Record(b"k", b"v")], producer_id=5, producer_epoch=0, base_sequence=0,
                            is_transactional=True)  # fmt: skip
        self.log.append(batch, leader_epoch=3, now_ms=NOW_MS)
        marker = end_txn_marker(commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=1,
                                timestamp_ms=NOW_MS)  # fmt: skip
        self.log.append_as_follower(_at(self.log.end_offset, marker), NOW_MS)

    def write(self, writer: str = "") -> None:
        """The ``.cleaned`` files, with an entry of a transaction that lies in them."""
        aborted = [AbortedTransaction(7, self.span.base_offset, self.span.base_offset + 1, 9)]
        batches = cleaned(self.group, self.span)
        write_cleaned(self.disk, "/d/t-0", self.span, batches, aborted, 0, writer)

    def replace(self) -> list[str]:
        return asyncio.run(self.replacing())

    def replacing(self) -> Coroutine[Any, Any, list[str]]:
        return replace_segments(self.log, self.group, self.disk, self.log._files, RealClock(1))

    def die_at(self, step: int) -> bool:
        """Replace until the process dies before the step; whether it did."""
        self.disk.die_after = step
        try:
            self.replace()
        except Killed:
            return True
        finally:
            self.disk.die_after = None
        return False

    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in sorted(self.sim.files)]

    def unfinished(self) -> list[str]:
        return [n for n in self.names() if n.endswith((".swap", ".cleaned", ".replaces", ".deleted"))]


def _at(offset: int, batch: bytearray) -> bytearray:
    batch[0:8] = offset.to_bytes(8, "big")
    batch[12:16] = (3).to_bytes(4, "big")
    return batch


def is_kept(offset: int, span: Span) -> bool:
    return offset % 4 == 1 or not span.base_offset <= offset < span.end_offset


def cleaned(group: list[Segment], span: Span) -> list[Buffer]:
    """As the cleaner will: the last batch stays, emptied, where nothing of it does."""
    batches = []
    for segment in group:
        data = segment.read_bytes(0, segment.size_bytes)
        for at, header in iter_batches(data):
            made = retain(
                data[at : at + header.size_bytes],
                lambda record: is_kept(record.offset, span),
                delete_horizon_ms=NOW_MS,
                keeps_empty=header.end_offset == span.end_offset,
            )
            batches += [] if made is None else [made]
    return batches


def records_of(log: Log) -> Records:
    """All records, as somebody reads them who fetches from the start."""
    found: Records = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 250).data
        found += [(record.offset, bytes(record.value or b"")) for _, record in read_all(data)]
        offset = [header for _, header in iter_batches(data)][-1].end_offset
    return found


def test_a_group_is_replaced_and_everything_else_stays() -> None:
    machine = LogMachine()
    end_offset, size_bytes = machine.log.end_offset, machine.log.size_bytes
    assert len(machine.group) == 3
    assert machine.group[1].base_offset < INSIDE < machine.group[1].end_offset
    paths = machine.replace()
    log = machine.log
    assert records_of(log) == machine.after
    assert len(machine.after) < len(machine.before)
    assert (log.end_offset, len(log.segments)) == (end_offset, 4)
    assert log.size_bytes < size_bytes
    assert sorted(paths) == ["/d/t-0/" + name for name in machine.unfinished()]
    assert {path.endswith(".deleted") for path in paths} == {True}
    fresh = log.segments.all[1]
    assert (fresh.base_offset, fresh.end_offset) == machine.span
    assert fresh.max_timestamp_ms == NOW_MS + 1
    for offset in range(*machine.span):
        [first, *_] = iter_batches(log.read(offset, 1 << 20).data)
        assert first[1].end_offset > offset
    assert first_at_or_after(log, NOW_MS + 1) is not None
    assert [one.producer_id for one in log.aborted_transactions(0, end_offset)] == [7, 5]


def test_files_of_another_writer_are_not_taken_and_a_start_removes_them() -> None:
    """A child process of a former broker may write on for a moment."""
    machine = LogMachine()
    machine.write("mine")
    [path] = [path for path in machine.sim.files if path.endswith(".log.cleaned")]
    machine.disk.open(path).append(b"of a process that has not died yet")
    with pytest.raises(LogError):
        replace_now(machine, "third")
    replace_now(machine, "mine")
    assert records_of(machine.log) == machine.after
    assert any(name.endswith(".log.cleaned") for name in machine.names())
    machine.boot()
    assert records_of(machine.open(recovery_point=1 << 40)) == machine.after
    assert machine.unfinished() == []


def replace_now(machine: LogMachine, writer: str) -> None:
    files = machine.log._files
    asyncio.run(replace_segments(machine.log, machine.group, machine.disk, files, RealClock(1), writer))


@pytest.mark.parametrize("ending", ["clean", "killed", "nothing is known of it"])
def test_a_replaced_log_opens_as_it_was(ending: str) -> None:
    machine = LogMachine()
    machine.replace()
    point = machine.log.recovery_point if ending != "nothing is known of it" else 0
    if ending == "clean":
        machine.log.close()
    machine.boot()
    again = machine.open(clean=ending == "clean", recovery_point=point)
    assert records_of(again) == machine.after
    assert [s.base_offset for s in again.segments.all] == [
        s.base_offset for s in machine.log.segments.all
    ]
    # From the markers in the log, where the index is built again: 7 stands in the index only.
    aborted = [5] if point == 0 else [7, 5]
    assert [one.producer_id for one in again.aborted_transactions(0, 1 << 40)] == aborted
    assert machine.unfinished() == []


@pytest.mark.slow
@pytest.mark.parametrize("group", [GROUP, slice(2, 3), slice(0, 2)])
@pytest.mark.parametrize("recovery_point", [0, 1 << 40])
def test_killed_before_any_step_the_log_is_the_old_or_the_new_one(
    recovery_point: int, group: slice
) -> None:
    """Once the new one, always the new one; what the next start does may be killed as well."""
    is_new: list[bool] = []
    for step in range(STEPS):
        machine = LogMachine(group)
        if not machine.die_at(step):
            break
        found = [opened(machine, recovery_point)]
        for again in range(step % 7, STEPS, 7):
            other = LogMachine(group)
            other.die_at(step)
            if not die_at_start(other, again, recovery_point):
                break
            found.append(opened(other, recovery_point))
        assert len({records == machine.after for records in found}) == 1
        assert found[0] in (machine.before, machine.after)
        assert machine.unfinished() == []
        is_new.append(found[0] == machine.after)
    assert is_new == sorted(is_new)
    assert set(is_new) == {False, True}
    assert len(is_new) > 15


def opened(machine: LogMachine, recovery_point: int) -> Records:
    """The records, wherever a reader begins."""
    machine.boot()
    log = machine.open(recovery_point=min(recovery_point, 60))
    ends = [0]
    for segment in log.segments.all:
        data = segment.read_bytes(0, segment.size_bytes)
        ends += [header.end_offset for _, header in iter_batches(data)]
    for offset in range(log.end_offset):
        [first, *_] = iter_batches(log.read(offset, 1 << 20).data)
        assert first[1].end_offset == min(end for end in ends if end > offset)
    return records_of(log)


def die_at_start(machine: LogMachine, step: int, recovery_point: int) -> bool:
    machine.boot()
    machine.disk.die_after = step
    try:
        machine.open(recovery_point=min(recovery_point, 60))
    except Killed:
        return True
    return False


@pytest.mark.slow
def test_after_a_loss_of_power_at_any_step_the_log_is_the_old_or_the_new_one(
    dice: random.Random,
) -> None:
    """What was not forced may be on the device or not; so again at the start after it."""
    outcomes = set()
    for step in range(STEPS):
        for _ in range(POWER_CUTS):
            machine = LogMachine()
            machine.sim._dice = dice
            if not machine.die_at(step):
                machine.disk.die_after = 0
            machine.sim.lose_power()
            for start in (dice.randrange(6), STEPS):
                died = die_at_start(machine, start, 1 << 40)
                machine.sim.lose_power() if died else None
            records = opened(machine, 1 << 40)
            assert records in (machine.before, machine.after), step
            outcomes.add(records == machine.after)
    assert outcomes == {False, True}


@pytest.mark.parametrize("for_good", [(), ("rename",), EVERY_CALL], ids=["once", "renames", "all"])
@pytest.mark.parametrize("kind", ["full", "broken"])
def test_a_disk_that_refuses_leaves_the_old_segments_and_says_so(
    kind: str, for_good: tuple[str, ...]
) -> None:
    """At each call. Afterwards the log is read, written and opened as before; if the disk took all
    that decides, as the new one. One that gives no names but removes files lost a segment."""
    refused = 0
    for call in range(STEPS * 3):
        machine = LogMachine()
        asked = fail_at(machine.disk, call, kind, for_good)
        try:
            machine.replace()
            error = None
        except LogError as one:
            error = one
        machine.disk.fault = lambda kind, path: None
        if error is None and len(asked) <= call:
            break
        refused += error is not None
        end_offset = machine.log.end_offset
        if kind == "full" and not for_good:
            assert records_of(machine.log) in (machine.before, machine.after)
            machine.put(1)
        machine.boot()
        records = records_of(machine.open(recovery_point=60))
        assert [one for one in records if one[0] < end_offset] in (machine.before, machine.after)
        assert machine.unfinished() == []
    assert refused > 20


def fail_at(disk: ProcessDisk, call: int, kind: str, for_good: tuple[str, ...]) -> list[str]:
    """`for_good`: calls that are refused from then on."""
    asked: list[str] = []

    def fault(operation: str, path: str) -> None:
        if operation in ("listdir", "stat", "read"):
            return
        asked.append(f"{operation} {path}")
        is_later = len(asked) > call and (operation in for_good or for_good == EVERY_CALL)
        if len(asked) - 1 == call or is_later:
            raise full(path) if kind == "full" else input_output_error(path)

    disk.fault = fault
    return asked


def full(path: str) -> DiskError:
    return DiskFull(f"{path}: no space left on device", ENOSPC)


def test_what_apache_kafka_left_is_finished() -> None:
    """It writes no note, and names the log before its indexes."""
    machine = LogMachine()
    base = f"/d/t-0/{machine.span.base_offset:020d}"
    machine.disk.rename(f"{base}.log.cleaned", f"{base}.log.swap")
    machine.disk.rename(f"{base}.txnindex.cleaned", f"{base}.txnindex.swap")
    assert opened(machine, 1 << 40) == machine.after
    other = LogMachine()
    other.replace()
    other.disk.rename(f"{base}.txnindex", f"{base}.txnindex.swap")
    assert opened(other, 1 << 40) == other.after
    log = other.open(recovery_point=60)
    assert [one.producer_id for one in log.aborted_transactions(0, 1 << 40)] == [7, 5]
    assert machine.unfinished() == other.unfinished() == []


def flip(data: bytearray) -> None:
    data[len(data) // 2] ^= 1


def cut_at_a_batch(data: bytearray) -> None:
    del data[[at for at, _ in iter_batches(data)][-1] :]


def empty(data: bytearray) -> None:
    data.clear()


@pytest.mark.parametrize("harm", [flip, cut_at_a_batch, empty])
@pytest.mark.parametrize("with_note", [True, False])
def test_a_replacement_that_is_not_whole_is_put_aside_and_the_old_segments_come_back(
    harm: Callable[[bytearray], None], with_note: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """At every moment at which a start finds one. Without the note of what it covers (Apache Kafka
    writes none) one that ends early cannot be told from one that is whole."""
    if not with_note and harm is cut_at_a_batch:
        return
    caplog.set_level(logging.ERROR)
    aside = 0
    for step in range(STEPS):
        machine = LogMachine()
        if not machine.die_at(step):
            break
        swap = f"/d/t-0/{machine.span.base_offset:020d}.log.swap"
        if swap not in machine.sim.files:
            continue
        harm(machine.sim.files[swap].data)
        if not with_note:
            machine.sim.files.pop(swap.replace("log.swap", "replaces"), None)
        again = machine
        die_at_start(again, aside % 7, 1 << 40)
        assert opened(machine, 1 << 40) == machine.before
        assert machine.unfinished() == []
        assert swap.replace(".swap", ".damaged") in machine.sim.files
        assert "is not whole" in caplog.text
        aside += 1
    assert aside > 8


def test_what_an_earlier_replacement_left_does_not_come_back() -> None:
    """Its ``.deleted`` files lie inside of what the second one replaces."""
    machine = LogMachine()
    machine.replace()
    first = records_of(machine.log)
    machine.group = machine.log.segments.all[1:2]
    machine.write()
    for step in range(STEPS):
        machine.disk.die_after = step
        try:
            machine.replace()
        except Killed:
            if any(name.endswith("log.swap") for name in machine.names()):
                break
        machine.boot()
        machine.log = machine.open(recovery_point=60)
        machine.group = machine.log.segments.all[1:2]
        machine.write()
    path = f"/d/t-0/{machine.span.base_offset:020d}.log.swap"
    flip(machine.sim.files[path].data)
    assert opened(machine, 1 << 40) == first


def test_readers_of_the_old_segments_finish() -> None:
    machine = LogMachine()
    old = machine.group[1]
    begun = bytes(old.read(0, 1 << 20, old.size_bytes, True))
    machine.replace()
    assert bytes(old.read(0, 1 << 20, old.size_bytes, True)) == begun
    assert old.position_of(old.base_offset + 5) is not None
    assert old not in machine.log.segments.all


class BetweenDisk(ProcessDisk):
    """Calls ``between`` before the n-th piece of work on a worker."""

    between: Callable[[], None] | None = None
    left = 0

    async def run(self, function: Callable[..., Any], *arguments: Any, worker: str = "") -> Any:
        self.left -= 1
        if self.left == -1 and self.between is not None:
            self.between()
        return function(*arguments)


def test_a_digest_under_way_finishes() -> None:
    """It is of the old segments, whole."""
    machine = LogMachine()
    plain = digest(machine)
    assert len(plain.blocks) > 4
    for work in range(len(machine.log.segments)):
        other = LogMachine()
        disk = other.disk = BetweenDisk(other.sim, ProcessLife("broker"), random.Random(1))
        disk.between, disk.left = lambda made=other: drive(made.replacing()), work  # type: ignore[misc]
        found = digest(other)
        assert records_of(other.log) == other.after
        assert (found.fault, found.blocks) == ("", plain.blocks), work


def test_a_digest_of_what_is_truncated_meanwhile_is_no_damage() -> None:
    """It ends before what is gone, and is asked for again from there."""
    for work in range(5):
        machine = LogMachine()
        disk = machine.disk = BetweenDisk(machine.sim, ProcessLife("broker"), random.Random(1))
        machine.log = machine.open(recovery_point=60)
        disk.between, disk.left = lambda made=machine: truncate_inside(made.log), work  # type: ignore[misc]
        found = digest(machine)
        assert machine.log.end_offset < INSIDE
        assert found.fault == ""
        assert found.next_offset >= machine.log.end_offset


def digest(machine: LogMachine) -> DigestRange:
    clock = RealClock()
    wanted = DigestRange(0, machine.log.end_offset, 8, 1 << 20)
    digests = LogDigests(machine.disk, clock, ColdReads(machine.disk, clock))
    asyncio.run(digests._digest(machine.log, wanted))
    wanted.close_block()
    return wanted


def drive(replacing: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Run a replacement to its end without a loop."""
    while True:
        try:
            replacing.send(None)
        except StopIteration as done:
            return list(done.value)


# --- beside everything else ------------------------------------------------------------------------


class TurnsDisk(ProcessDisk):
    """The loop has a turn before a worker begins, as between any two slices."""

    async def run(self, function: Callable[..., Any], *arguments: Any, worker: str = "") -> Any:
        await asyncio.sleep(0)
        return function(*arguments)


def truncate_inside(log: Log) -> None:
    log.truncate_to(INSIDE, NOW_MS)


def truncate_behind(log: Log) -> None:
    log.truncate_to(log.end_offset - 1, NOW_MS)


def truncate_fully(log: Log) -> None:
    log.truncate_fully_and_start_at(500, NOW_MS)


def truncate_and_grow(log: Log) -> None:
    truncate_inside(log)
    for _ in range(30):
        log.append(build_batch([Record(b"n", b"new")] * 4), leader_epoch=4, now_ms=NOW_MS)


def delete_by_retention(log: Log) -> None:
    log.delete_records_before(INSIDE)
    for path in delete_old_segments(log, log._disk, NOW_MS):
        log._disk.remove(path)


def grow(log: Log) -> None:
    log.append(build_batch([Record(b"n", b"new")] * 4), leader_epoch=4, now_ms=NOW_MS)
    log.roll(NOW_MS)


CHANGES = [truncate_inside, truncate_behind, truncate_fully, truncate_and_grow,
           delete_by_retention, grow]  # fmt: skip


def with_turns() -> LogMachine:
    """A machine whose replacement can be looked at between any two steps."""
    machine = LogMachine()
    machine.disk = TurnsDisk(machine.sim, ProcessLife("broker"), random.Random(1))
    machine.log = machine.open(recovery_point=60)
    machine.log.advance_high_watermark(machine.log.end_offset)
    machine.group = machine.log.segments.all[1:4]
    machine.write()
    return machine


@pytest.mark.parametrize("change", CHANGES)
def test_a_log_that_changes_meanwhile_withdraws_its_replacement(
    change: Callable[[Log], None],
) -> None:
    """Between any two steps: the log is what it is without a replacement, or, where that was made
    before or the change does not touch it, what it is with one; in memory and after a start."""
    plain = LogMachine()
    change(plain.log)
    made = [change_at_turn(turn, change, records_of(plain.log)) for turn in range(turns())]
    assert made == sorted(made)
    assert all(made) if change is grow else set(made) == {False, True}


def turns() -> int:
    """How often the loop has a turn in one replacement."""
    replacing = with_turns().replacing()
    for turn in range(STEPS):
        try:
            replacing.send(None)
        except StopIteration:
            assert turn > 12
            return turn
    raise AssertionError("a replacement does not end")


def change_at_turn(turn: int, change: Callable[[Log], None], expected: Records) -> bool:
    """Whether the replacement was made."""
    machine = with_turns()
    replacing = machine.replacing()
    for _ in range(turn + 1):
        replacing.send(None)
    change(machine.log)
    at_once = records_of(machine.log)
    is_made = True
    try:
        drive(replacing)
    except LogError as error:
        is_made = "withdrawn" not in str(error)
    if is_made:
        expected = [one for one in expected if is_kept(one[0], machine.span) or one[1] == b"new"]
    else:
        assert at_once == expected
    assert records_of(machine.log) == expected
    start, end = machine.log.log_start_offset, machine.log.end_offset
    machine.log.flush()
    machine.boot()
    again = machine.open(recovery_point=end, log_start_offset=start)
    assert records_of(again) == expected
    assert machine.unfinished() == []
    return is_made


def test_between_any_two_steps_the_log_is_read_as_before_or_as_after() -> None:
    machine = with_turns()
    replacing = machine.replacing()
    seen = []
    with pytest.raises(StopIteration):
        while True:
            replacing.send(None)
            records = records_of(machine.log)
            assert records in (machine.before, machine.after)
            seen.append(records == machine.after)
    assert seen == sorted(seen)
    assert set(seen) == {False, True}


def test_only_closed_forced_neighbours_are_replaced() -> None:
    machine = LogMachine()
    segments = machine.log.segments.all
    for group in ([segments[-1]], segments[3:], [segments[1], segments[3]], [machine_segment()]):
        with pytest.raises(LogError):
            machine.log.segments.begin_replacement(group, machine.log.recovery_point)
    with pytest.raises(LogError):
        machine.log.segments.begin_replacement(machine.group, machine.span.end_offset - 1)
    machine.log.segments.begin_replacement(machine.group, machine.span.end_offset)
    with pytest.raises(LogError):
        machine.log.segments.begin_replacement(segments[:1], machine.log.recovery_point)


def machine_segment() -> Segment:
    return LogMachine().group[0]
