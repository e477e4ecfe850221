"""Idempotent producers and transactions in one partition."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.producer_snapshots import ProducerSnapshotDamaged, decode_snapshot, encode_snapshot
from broker.log.producer_state import RETAINED_BATCHES, BatchMetadata, ProducerEntry
from broker.log.validation import AppendInfo, AppendOrigin
from bus.errors import ErrorCode
from bus.records.control import end_txn_marker

NOW_MS = 1_760_000_000_000
MakeLog = Callable[..., Log]
Send = Callable[..., AppendInfo]


@pytest.fixture
def log(make_log: MakeLog) -> Log:
    return make_log()


@pytest.fixture
def send(log: Log, batch: Callable[..., bytearray]) -> Send:
    def do(sequence: int, count: int = 1, *, pid: int = 1, epoch: int = 0, txn: bool = False,
           **more: object) -> AppendInfo:  # fmt: skip
        data = batch(count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence,
                     is_transactional=txn)  # fmt: skip
        info = log.append(data, leader_epoch=0, now_ms=NOW_MS, **more)  # type: ignore[arg-type]
        log.advance_high_watermark(log.end_offset)
        return info

    return do


def end(log: Log, *, commit: bool, pid: int = 1, epoch: int = 0, coordinator: int = 0) -> None:
    marker = end_txn_marker(commit=commit, producer_id=pid, producer_epoch=epoch,
                            coordinator_epoch=coordinator, timestamp_ms=NOW_MS)  # fmt: skip
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.end_offset)


def refused(code: ErrorCode, action: Callable[[], object]) -> None:
    with pytest.raises(LogError) as caught:
        action()
    assert caught.value.code is code


def test_the_last_five_batches_are_recognised_and_answered_with_their_old_offsets(
    log: Log, send: Send
) -> None:
    infos = [send(i * 3, 3) for i in range(8)]
    end_offset = log.end_offset
    for i in range(3, 8):
        again = send(i * 3, 3)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (infos[i].base_offset, infos[i].last_offset)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: send(2 * 3, 3))
    assert log.end_offset == end_offset


def test_a_gap_in_the_sequence_is_out_of_order(send: Send) -> None:
    send(0, 2)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: send(3))
    send(2)


def test_the_sequence_wraps_after_two_to_the_31(log: Log, send: Send) -> None:
    send((1 << 31) - 2, 2)
    send(0)
    assert send((1 << 31) - 2, 2).duplicate
    assert log.end_offset == 3


def test_an_unknown_producer_may_begin_anywhere(send: Send) -> None:
    """After expiry or deletion of its records (KIP-360); UNKNOWN_PRODUCER_ID is history."""
    assert not send(77).duplicate


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(send: Send) -> None:
    send(0, 5, epoch=1)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda: send(5, epoch=2))
    send(0, epoch=2)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, lambda: send(5, epoch=1))
    assert not send(1, epoch=2).duplicate


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(log: Log, send: Send) -> None:
    send(0, pid=1)
    send(0, pid=2, txn=True)
    assert log.producers.expire(NOW_MS + 999, 1000) == 0
    assert log.producers.expire(NOW_MS + 1000, 1000) == 1
    assert [e.producer_id for e in log.producers.active()] == [2]


def test_the_last_stable_offset_stops_at_the_oldest_open_transaction(log: Log, send: Send) -> None:
    send(0, 2, pid=1)
    send(0, 2, pid=2, txn=True)
    send(0, 2, pid=3, txn=True)
    assert log.last_stable_offset == 2
    end(log, commit=True, pid=2)
    assert log.last_stable_offset == 4
    end(log, commit=False, pid=3)
    assert log.last_stable_offset == log.end_offset == 8


def test_an_ended_transaction_is_stable_only_below_the_high_watermark(
    log: Log, batch: Callable[..., bytearray]
) -> None:
    data = batch(1, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append(data, leader_epoch=0, now_ms=NOW_MS)
    marker = end_txn_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0,
                            timestamp_ms=NOW_MS)  # fmt: skip
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_aborted_transactions_are_listed_for_the_range_they_touch_even_after_a_crash(
    make_log: MakeLog, log: Log, send: Send
) -> None:
    send(0, 2, pid=1, txn=True)
    send(0, 1, pid=2, txn=True)
    end(log, commit=False, pid=1)
    end(log, commit=True, pid=2)
    send(2, 1, pid=1, txn=True)
    end(log, commit=False, pid=1)
    for opened in (log, make_log(), make_log(clean=True)):
        found = opened.aborted_transactions(0, opened.end_offset)
        assert [(a.producer_id, a.first_offset, a.last_offset) for a in found] == [
            (1, 0, 3),
            (1, 5, 6),
        ]
        assert found[0].last_stable_offset == 2
        assert opened.aborted_transactions(4, 5) == []


def test_markers_of_an_overtaken_coordinator_or_epoch_are_fenced(log: Log, send: Send) -> None:
    send(0, txn=True, epoch=1)
    end(log, commit=True, epoch=1, coordinator=5)
    refused(
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        lambda: end(log, commit=True, epoch=1, coordinator=4),
    )
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, lambda: end(log, commit=True, epoch=0, coordinator=5))


def test_a_plain_batch_inside_a_transaction_is_refused(send: Send) -> None:
    send(0, txn=True)
    refused(ErrorCode.INVALID_TXN_STATE, lambda: send(1, txn=False))


@pytest.mark.parametrize("seed", range(20))
def test_snapshots_come_back_as_they_went(seed: int) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    entries = []
    for pid in range(dice.randrange(6)):
        entry = ProducerEntry(pid << 40, dice.randrange(-1, 100))
        entry.coordinator_epoch = dice.randrange(-1, 5)
        entry.transaction_first_offset = dice.choice([-1, dice.randrange(1 << 60)])
        for _ in range(dice.randrange(RETAINED_BATCHES + 2)):
            entry.batches.append(BatchMetadata(dice.randrange(1 << 31), dice.randrange(1 << 60), 3, 99))
            entry.last_timestamp_ms = 99
        entries.append(entry)
    data = encode_snapshot(entries)
    assert encode_snapshot(decode_snapshot(data)) == data
    for _ in range(50):
        damaged = bytearray(data)
        damaged[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        with pytest.raises(ProducerSnapshotDamaged):
            decode_snapshot(bytes(damaged))
        with pytest.raises(ProducerSnapshotDamaged):
            decode_snapshot(data[: dice.randrange(len(data))])


def test_the_snapshot_has_kafkas_layout() -> None:
    entry = ProducerEntry(0x1122, 3)
    entry.batches.append(BatchMetadata(9, 100, 4, 55))
    entry.last_timestamp_ms = 55
    data = encode_snapshot([entry])
    assert data[:2] == b"\x00\x01"
    assert data[6:10] == b"\x00\x00\x00\x01"
    assert data[10:].hex() == (
        "0000000000001122" "0003" "00000009" "0000000000000064" "00000004"
        "0000000000000037" "ffffffff" "ffffffffffffffff"
    )  # fmt: skip
