"""A real log on a disk that loses its power: flushed records survive, offsets have no gap, and
truncated records do not return."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from broker.config.views import TopicConfig
from broker.log.flush_state import run_flush
from broker.log.log import Log
from broker.log.partition_metadata import read_topic_id, write_topic_id
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.record import Record
from tests.simulation.disk import ProcessDisk, SimDisk
from tests.simulation.loop import ProcessLife

NOW_MS = 1_790_000_000_000
TOPIC_ID = bytes(range(16))
CONFIG = replace(TopicConfig(), segment_bytes=700)


def open_log(machine: SimDisk, recovery_point: int = 0) -> Log:
    disk = ProcessDisk(machine, ProcessLife("broker"), random.Random(0))
    disk.mkdirs("/data")
    return Log("/data/t-0", disk=disk, config=CONFIG, now_ms=NOW_MS, recovery_point=recovery_point)


def put(log: Log, count: int, epoch: int) -> None:
    for _ in range(count):
        record = Record(b"k", bytes(40), timestamp_ms=NOW_MS)
        log.append(bytearray(build_batch([record] * 2)), leader_epoch=epoch, now_ms=NOW_MS)


def batches(log: Log) -> list[tuple[int, int]]:
    """(base offset, epoch) of every readable batch."""
    found, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 20).data)
        assert data, f"nothing at {offset} of {log.end_offset}"
        for _, header in iter_batches(data):
            found.append((header.base_offset, header.partition_leader_epoch))
            offset = header.end_offset
    return found


@pytest.mark.parametrize("part", range(4))
def test_after_a_loss_of_power_a_log_is_a_prefix_of_what_it_was(part: int):
    """Over many rolls and flushes nothing flushed is missing and no gap appears."""
    for seed in range(part * 40, part * 40 + 40):
        dice = random.Random(seed)
        machine = SimDisk("m", dice, lambda: NOW_MS)
        log = open_log(machine)
        flushed = 0
        for _ in range(6):
            put(log, dice.randrange(1, 8), epoch=0)
            if dice.random() < 0.5:
                log.flush()
                flushed = log.end_offset
        before = batches(log)
        machine.lose_power()
        reopened = open_log(machine, log.recovery_point)
        assert reopened.end_offset >= flushed
        assert batches(reopened) == before[: len(batches(reopened))], f"seed {seed}"


def former_history(seed: int, *, flushed: float) -> tuple[random.Random, SimDisk, Log]:
    """A log with batches of epoch 1, each flushed with that probability."""
    dice = random.Random(seed)
    machine = SimDisk("m", dice, lambda: NOW_MS)
    log = open_log(machine)
    put(log, 4 + dice.randrange(0, 12), epoch=1)
    if dice.random() < flushed:
        log.flush()
    return dice, machine, log


@pytest.mark.parametrize("part", range(4))
def test_what_was_cut_does_not_come_back_with_the_power(part: int):
    """Regression, found by the simulation: a divergent tail was truncated, other records replaced
    it in a new segment, and after a power loss both were in the log."""
    for seed in range(part * 40, part * 40 + 40):
        dice, machine, log = former_history(seed, flushed=0.5)
        cut = dice.randrange(1, log.end_offset // 2) * 2
        log.truncate_to(cut, NOW_MS)
        if dice.random() < 0.5:
            log.roll(NOW_MS)
        put(log, dice.randrange(0, 10), epoch=2)
        machine.lose_power()
        found = batches(open_log(machine, log.recovery_point))
        assert found == sorted(found), f"seed {seed}"
        assert [base for base, _ in found] == list(range(0, 2 * len(found), 2)), f"seed {seed}"
        assert not [one for one in found if one[0] >= cut and one[1] == 1], f"seed {seed}"


@pytest.mark.parametrize("part", range(4))
def test_a_cut_that_its_process_did_not_live_to_force_does_not_come_back(part: int):
    """Regression, found by the simulation: a process died between a truncation and its fsync. The
    next one appended to a new segment and flushed that; after a power loss the old tail was below
    it again."""
    for seed in range(part * 40, part * 40 + 40):
        dice, machine, log = former_history(seed, flushed=0.7)
        checkpointed, cut = log.recovery_point, dice.randrange(1, log.end_offset // 2) * 2
        log.begin_truncate_to(cut, NOW_MS)
        log = open_log(machine, checkpointed)
        if dice.random() < 0.5:
            log.roll(NOW_MS)
        put(log, dice.randrange(0, 5), epoch=2)
        flushed, how = 0, dice.random()
        if how < 0.3:
            flush = log.begin_flush()
            run_flush(ProcessDisk(machine, ProcessLife("worker"), random.Random(0)), log.directory, flush)
            log.mark_flushed(flush, NOW_MS)
            flushed = log.end_offset
        elif how < 0.6:
            log.flush()
            flushed = log.end_offset
        put(log, dice.randrange(0, 5), epoch=2)
        machine.lose_power()
        again = open_log(machine, log.recovery_point)
        found = batches(again)
        assert again.end_offset >= flushed, f"seed {seed}"
        assert [base for base, _ in found] == list(range(0, 2 * len(found), 2)), f"seed {seed}"
        if flushed:
            assert not [one for one in found if one[0] >= cut and one[1] == 1], f"seed {seed}"
        assert [epoch for _, epoch in found] == sorted(epoch for _, epoch in found), f"seed {seed}"


def index_files(machine: SimDisk) -> dict[str, bytes]:
    """The indexes of all segments but the last, which recovery scans in any case."""
    names = sorted(path for path in machine.files if path.endswith((".index", ".timeindex")))
    last = max(path.rsplit("/", 1)[1].split(".")[0] for path in names)
    return {path: bytes(machine.files[path].data) for path in names if last not in path}


@pytest.mark.parametrize("flush_first", [True, False])
def test_below_the_recovery_point_indexes_are_as_durable_as_the_records(flush_first: bool):
    """Regression, found by the simulation: a time index whose page had never reached the device
    dated its segment to 1970, and retention deleted acknowledged records."""
    for seed in range(80):
        dice = random.Random(seed)
        machine = SimDisk("m", dice, lambda: NOW_MS)
        log = open_log(machine)
        put(log, 12, epoch=0)
        if flush_first:
            log.flush()
            log.roll(NOW_MS)
        else:
            log.roll(NOW_MS)
            log.flush()
        put(log, 3, epoch=0)
        before = index_files(machine)
        assert before
        machine.lose_power()
        after = {path: bytes(machine.files[path].data) for path in before}
        closed = [path for path in before if int(path.rsplit("/", 1)[1].split(".")[0]) < 24]
        assert {p: after[p] for p in closed} == {p: before[p] for p in closed}, f"seed {seed}"


def test_indexes_that_a_truncation_wrote_anew_are_durable_once_the_recovery_point_is_beyond_them():
    """Regression, found by the simulation: a truncation to a segment's end wrote the last entry of the
    indexes before it anew, the next flush did not force them, and after a loss of power the time
    index dated the segment to 1970."""
    for seed in range(80):
        machine = SimDisk("m", random.Random(seed), lambda: NOW_MS)
        log = open_log(machine)
        put(log, 12, epoch=0)
        log.roll(NOW_MS)
        rolled_at = log.end_offset
        put(log, 3, epoch=0)
        log.flush()
        log.truncate_to(rolled_at, NOW_MS)
        put(log, 3, epoch=0)
        log.flush()
        paths = log.segments.all[-2].index_files()
        assert len(paths) == 2
        before = {path: bytes(machine.files[path].data) for path in paths}
        machine.lose_power()
        after = {path: bytes(machine.files[path].data) for path in before}
        assert after == before, f"seed {seed}"


@pytest.mark.parametrize("seed", range(20))
def test_data_that_was_flushed_still_knows_its_topic_after_a_loss_of_power(seed: int):
    """The topic id is not synced when a partition is created. If it were lost while the data
    survived, the next start would accept another topic's records as this one's."""
    machine = SimDisk("m", random.Random(seed), lambda: NOW_MS)
    log = open_log(machine)
    disk = ProcessDisk(machine, ProcessLife("broker"), random.Random(0))
    write_topic_id(disk, "/data/t-0", TOPIC_ID)
    log.is_new = True
    put(log, 3, epoch=0)
    log.flush()
    machine.lose_power()
    again = open_log(machine, log.recovery_point)
    assert again.end_offset >= 6
    assert read_topic_id(disk, "/data/t-0") == TOPIC_ID


def test_a_flush_beside_one_that_has_only_begun_forces_new_names_itself(
    monkeypatch: pytest.MonkeyPatch,
):
    """Regression: the first flush removed the names from the list before they were synced, and the
    other one checkpointed a log whose newest segments a power loss could still remove."""
    log = open_log(SimDisk("m", random.Random(0), lambda: NOW_MS))
    put(log, 12, epoch=0)
    log.flush()
    put(log, 12, epoch=0)
    forced: list[str] = []
    monkeypatch.setattr(ProcessDisk, "flush_directory", lambda _, path: forced.append(path))
    begun = log.begin_flush()
    log.flush()
    assert forced == ["/data/t-0"]
    log.mark_flushed(begun, NOW_MS)
    assert log.begin_flush().names == 0
