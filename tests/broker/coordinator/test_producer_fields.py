"""What a coordinator writes as part of a client's transaction stands under that client's producer."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.coordinator.group.records import CommittedOffset, OffsetRecord
from broker.coordinator.partition_writer import NO_PRODUCER, ProducerFields
from broker.log.validation import AppendOrigin
from bus.errors import ErrorCode
from bus.records.batch import BatchHeader, iter_batches
from bus.records.control import end_txn_marker
from tests.broker.coordinator.offsets_broker import OffsetsBroker

RECORD = OffsetRecord("group", "t", 0, CommittedOffset(7, -1, "", 0))


@pytest.fixture
def broker(tmp_path: Path) -> OffsetsBroker:
    return OffsetsBroker(str(tmp_path))


def write(broker: OffsetsBroker, producer: ProducerFields) -> list[ErrorCode]:
    """Its errors; committed where there is none."""
    errors: list[ErrorCode] = []
    committed: list[bool] = []
    broker.appender.write(
        0, [RECORD, RECORD], lambda: committed.append(True), errors.append, producer
    )
    assert bool(committed) is (errors == [ErrorCode.NONE])
    return errors


def headers(broker: OffsetsBroker) -> list[BatchHeader]:
    log = broker.partition.log
    return [header for _, header in iter_batches(log.read(0, 1 << 20).data)]


@pytest.mark.parametrize(
    "producer",
    [NO_PRODUCER, ProducerFields(9, 3, 0, is_transactional=True), ProducerFields(9, 0, 41)],
)
def test_the_header_names_the_producer(broker: OffsetsBroker, producer: ProducerFields) -> None:
    assert write(broker, producer) == [ErrorCode.NONE]
    [header] = headers(broker)
    assert producer == (
        header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional,
    )  # fmt: skip
    assert header.records_count == 2


def test_a_transaction_is_open_until_its_marker_and_any_number_of_writes_belong_to_it(
    broker: OffsetsBroker,
) -> None:
    """All with sequence 0, as Kafka's group coordinator writes them."""
    producer = ProducerFields(9, 3, 0, is_transactional=True)
    assert write(broker, NO_PRODUCER) == [ErrorCode.NONE]
    for _ in range(3):
        assert write(broker, producer) == [ErrorCode.NONE]
    log = broker.partition.log
    assert (log.last_stable_offset, log.end_offset) == (2, 8)
    marker = end_txn_marker(commit=True, producer_id=9, producer_epoch=3, coordinator_epoch=0,
                            timestamp_ms=0)  # fmt: skip
    broker.partition.append_as_leader(
        marker, required_acks=-1, now_ms=0, origin=AppendOrigin.COORDINATOR
    )
    assert log.last_stable_offset == log.end_offset == 9


def test_a_producer_with_a_newer_epoch_fences_the_older_one(broker: OffsetsBroker) -> None:
    assert write(broker, ProducerFields(9, 3, 0, is_transactional=True)) == [ErrorCode.NONE]
    assert write(broker, ProducerFields(9, 2, 0, is_transactional=True)) == [
        ErrorCode.INVALID_PRODUCER_EPOCH
    ]
    assert len(headers(broker)) == 1


def test_a_restart_knows_the_open_transaction(broker: OffsetsBroker, tmp_path: Path) -> None:
    assert write(broker, ProducerFields(9, 3, 0, is_transactional=True)) == [ErrorCode.NONE]
    broker.partition.log.flush()
    broker.logs.release()
    again = OffsetsBroker(str(tmp_path))
    assert again.partition.log.last_stable_offset == 0
    assert write(again, ProducerFields(9, 2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
