"""A few records that all have to be on their topic before anybody is told that they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer, RecordHeaders
from bus.client.model import ConsumedRecord, KeyedValue
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings


def send_all(
    bus: BusSettings,
    client_id: str,
    topic: str,
    records: Iterable[KeyedValue],
    *,
    headers: RecordHeaders,
    timeout_s: float,
    what: str,
) -> None:
    """All, in their order, each with these headers. Raises `BusError` that says how many are not
    known to be written; the same call again is safe where readers take a key's newest value.
    `what`: what they are called there."""
    failed: list[Exception] = []
    overrides = {"message.timeout.ms": int(timeout_s * 1000)}
    producer = Producer(bus, client_id=client_id, overrides=overrides)

    def delivered(outcome: object) -> None:
        if isinstance(outcome, Exception):
            failed.append(outcome)

    for key, value in records:
        producer.send(topic, value, key=key, headers=headers, on_delivery=delivered)
    left = producer.close(timeout_s)
    if left or failed:
        why = f"{left + len(failed)} {what} are not known to be written: repeat it"
        raise BusError(ErrorCode.REQUEST_TIMED_OUT, why)


def send_records(producer: Producer, records: Sequence[ConsumedRecord], timeout_s: float) -> None:
    """Records as they are, to topics of one partition, in their order; a time that is not positive
    is left to the producer. All are acknowledged when this returns. Raises `BusError`."""
    failed: list[DeliveryError] = []

    def on_delivery(outcome: DeliveryReport) -> None:
        if isinstance(outcome, DeliveryError):
            failed.append(outcome)

    for record in records:
        producer.send(
            record.topic, record.value, key=record.key, headers=record.headers,
            timestamp_ms=max(record.timestamp_ms, 0) or None, partition=0, on_delivery=on_delivery,
        )  # fmt: skip
    if records and (producer.flush(timeout_s) or failed):
        why = str(failed[0]) if failed else "no answer"
        raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{records[0].topic}: {why}")
