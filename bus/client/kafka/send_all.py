"""A few records that all have to be on their topic before anybody is told that they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bus.client.kafka.producer import Producer, RecordHeaders
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings


class KeyedValue(NamedTuple):
    """Of one record."""

    key: bytes
    value: bytes


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
