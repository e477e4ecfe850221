"""A disk that answers EIO: an append changes nothing or everything, a failed flush is the last one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.config.views import TopicConfig
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.producer_snapshots import encode_snapshot
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from tests.simulation.disk import ProcessDisk, SimDisk, input_output_error
from tests.simulation.loop import ProcessLife

NOW_MS = 1_760_000_000_000
Batch = Callable[..., bytearray]
CONFIG = replace(TopicConfig(), segment_bytes=600, index_interval_bytes=0)


class FailingDiskLog:
    """A disk in memory that refuses the n-th call from now, and optionally all later ones."""

    def __init__(self) -> None:
        self.sim = SimDisk("m", random.Random(1), lambda: NOW_MS)
        self.disk = ProcessDisk(self.sim, ProcessLife("broker"), random.Random(1))
        self.disk.mkdirs("/d")
        self.asked: list[str] = []

    def fail_at(self, call: int, *, for_good: bool = False) -> None:
        self.asked.clear()

        def fault(kind: str, path: str) -> None:
            self.asked.append(f"{kind} {path}")
            at = len(self.asked) - 1
            if at == call or (for_good and at > call):
                raise input_output_error(path)

        self.disk.fault = fault

    def open(self, **checkpoints: Any) -> Log:
        return Log("/d/t-0", disk=self.disk, config=CONFIG, now_ms=NOW_MS, **checkpoints)


def state(log: Log) -> tuple[Any, ...]:
    """All that an append may change."""
    segments = [(s.base_offset, s.size_bytes, s.end_offset) for s in log.segments.all]
    return (
        log.end_offset, log.recovery_point, segments, log.active_segment.base_offset,
        encode_snapshot(log.producers.active()), log.leader_epochs.entries, log.needs_flush,
    )  # fmt: skip


def put(log: Log, data: bytearray, epoch: int) -> None:
    log.append(data, leader_epoch=epoch, now_ms=NOW_MS)


def copy(log: Log, data: bytearray, epoch: int) -> None:
    """Appends as a follower does, with the leader's offset and epoch."""
    leader = FailingDiskLog().open(log_start_offset=log.end_offset)
    put(leader, data, epoch)
    log.append_as_follower(leader.read(log.end_offset, 1 << 20).data, NOW_MS)


def refusal(call: Callable[[], object]) -> LogError | None:
    """The log's error if the disk refuses; a DiskError propagates, which no caller expects."""
    try:
        call()
    except LogError as error:
        return error
    return None


def content(log: Log) -> bytes:
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        piece = bytes(log.read(offset, 1 << 20).data)
        found += piece
        offset = [header for _, header in iter_batches(piece)][-1].end_offset
    return found


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("append", [put, copy])
def test_an_append_that_is_refused_has_changed_nothing(
    batch: Batch, append: Callable[[Log, bytearray, int], None], for_good: bool
) -> None:
    """At every call of the disk: in the middle of a segment, at a roll, with a new epoch and a new
    producer. The same batch is taken afterwards, and the next life finds all of them."""
    refused = 0
    for held in range(1, 7):  # of which some fill their segment, so that the next one rolls
        for call in range(40):
            machine = FailingDiskLog()
            log = machine.open()
            for number in range(held):
                append(log, batch(1, size=80, producer_id=1, producer_epoch=0,
                                  base_sequence=number), 1)  # fmt: skip
            before = state(log)
            new = {"size": 80, "producer_id": 2, "producer_epoch": 0, "base_sequence": 0}
            machine.fail_at(call, for_good=for_good)
            error = refusal(lambda: append(log, batch(1, **new), 2))  # noqa: B023
            if error is not None:
                assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
                assert state(log) == before, machine.asked
                refused += 1
                machine.fail_at(1 << 30)
                append(log, batch(1, **new), 2)
            assert log.end_offset == held + 1
            machine.fail_at(1 << 30)
            written = content(log)
            again = machine.open()
            assert content(again) == written
            assert again.leader_epochs.entries == [(1, 0), (2, held)]
            if not for_good and len(machine.asked) <= call:
                break
    assert refused > 6


@pytest.mark.parametrize("call", range(12))
def test_a_flush_that_has_failed_is_not_tried_again(batch: Batch, call: int) -> None:
    """The kernel says once that it has lost pages; a second flush would say that all is well."""
    machine = FailingDiskLog()
    log = machine.open()
    put(log, batch(1), 1)
    machine.fail_at(call)
    error = refusal(log.flush)
    if error is None:
        assert len(machine.asked) <= call
        return
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.recovery_point, log.end_offset) == (0, 1)
    machine.fail_at(1 << 30)
    for again in (log.flush, log.begin_flush, log.close):
        with pytest.raises(Exception, match="input/output"):
            again()
    assert [asked for asked in machine.asked if asked.startswith("flush")] == []
    assert log.recovery_point == 0


@pytest.mark.parametrize("cut", [lambda log: log.begin_truncate_to(3, NOW_MS), lambda log: log.begin_truncate_to(9, NOW_MS),
                                 lambda log: log.begin_truncate_fully(40, NOW_MS)])  # fmt: skip
def test_a_cut_that_the_disk_refuses_is_an_error_of_the_log(
    batch: Batch, cut: Callable[[Log], object]
) -> None:
    """At any call; no DiskError leaves the log, because no caller expects one."""
    for call in range(200):
        machine = FailingDiskLog()
        log = machine.open()
        for number in range(10):
            put(log, batch(1, size=120), number // 4)
        machine.fail_at(call)
        error = refusal(lambda: cut(log))  # noqa: B023
        assert error is None or error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if len(machine.asked) <= call:
            assert call > 3
            return
    pytest.fail("the cut never came to its end")


def test_nothing_is_appended_while_a_cut_is_not_on_the_disk(batch: Batch) -> None:
    """After a power loss the truncated records would return after their replacement."""
    log = FailingDiskLog().open()
    for _ in range(3):
        put(log, batch(1), 1)
    log.begin_truncate_to(1, NOW_MS)
    with pytest.raises(LogError) as caught:
        put(log, batch(1), 2)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    log.guard.unblock()
    put(log, batch(1), 2)
    assert (log.end_offset, log.leader_epochs.entries) == (2, [(1, 0), (2, 1)])


def test_with_flush_messages_nothing_is_acknowledgeable_before_its_flush(batch: Batch) -> None:
    """And what was appended while the flush was under way waits for the next one."""
    machine = FailingDiskLog()
    log = machine.open()
    log.reconfigure(replace(CONFIG, flush_messages=2))
    put(log, batch(1), 1)
    assert (log.needs_flush, log.acknowledgeable_end_offset) == (False, 1)
    put(log, batch(1), 1)
    flush = log.begin_flush()
    put(log, batch(3), 1)
    assert (log.needs_flush, log.acknowledgeable_end_offset) == (True, 1)
    log.mark_flushed(flush, NOW_MS)
    assert (log.needs_flush, log.acknowledgeable_end_offset) == (True, 2)
    log.mark_flushed(log.begin_flush(), NOW_MS)
    assert (log.needs_flush, log.acknowledgeable_end_offset) == (False, 5)


def test_a_segment_rolled_right_after_a_flush_is_found_though_its_index_was_torn(
    batch: Batch,
) -> None:
    """The roll syncs nothing. Regression: indexes below the recovery point were used unchecked."""
    machine = FailingDiskLog()
    log = machine.open()
    for _ in range(3):
        put(log, batch(1, size=80), 1)
    log.flush()
    log.roll(NOW_MS)
    put(log, batch(1, size=80), 1)
    written = content(log)
    index = machine.sim.files["/d/t-0/00000000000000000000.index"]
    index.write(0, bytes(len(index.data)))
    again = machine.open(recovery_point=3)
    assert content(again) == written
    assert [again.read(at, 1).data[7] for at in range(4)] == [0, 1, 2, 3]
