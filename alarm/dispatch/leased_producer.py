"""Sends what a member has decided while it may: each record once, in its order, with its outcome.

In: records of one topic, until when the member's lease holds. Out: by their numbers what became of
them. Never: a record after the lease; one on its way between two calls; one behind a record that
could not even be queued, unless that one would never be taken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.errors import ClientFailed, DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer, RecordHeaders
from bus.client.model import KeyedValue
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import TOPICS
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

log = logging.getLogger(__name__)

DELIVERY_TIMEOUT_S = 3.0  # half a session: what was sent as a member is not on its way afterwards
SCAN_S = 2.0  # librdkafka looks once a second for what is too old, and tells it then
_OVERRIDES = {
    **FOLLOWS_LEADERS, "linger.ms": 0, "message.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
}  # fmt: skip


class LeasedProducer:
    """One thread at a time. Invariant: nothing is on its way between two calls of `send`."""

    def __init__(self, bus: BusSettings, client_id: str, site: str) -> None:
        """`site`: its name, in a header of each record."""
        self._make: Callable[[], Producer] = partial(
            Producer, bus, client_id=client_id, overrides=_OVERRIDES
        )
        self._site = site
        self._producer = self._make()

    def send(
        self,
        topic: str,
        records: Sequence[KeyedValue],
        until_s: float,
        passed_over: Collection[ErrorCode] = (),
    ) -> dict[int, DeliveryReport]:
        """What became of each by its number; of one that was not sent nothing is said. Sends
        nothing after `until_s` of the monotonic clock. `passed_over`: errors of a record that those
        behind it do not wait for."""
        reports: dict[int, DeliveryReport] = {}
        headers = [(SCHEMA, TOPICS[topic].schema), (SITE, self._site)]
        try:
            for number, record in enumerate(records):
                if time.monotonic() >= until_s:
                    break
                on_delivery = partial(reports.__setitem__, number)
                error = self._queue(topic, record, headers, on_delivery)
                if error is not None:
                    reports[number] = error
                    if error.code not in passed_over:
                        break
        except ClientFailed as error:
            log.error("a new producer is needed: %s", error)
            self._producer.close(0)
            self._producer = self._make()
            return {}
        self._producer.flush(DELIVERY_TIMEOUT_S + SCAN_S)
        return reports

    def close(self) -> None:
        """Leave."""
        self._producer.close(0)

    def _queue(
        self,
        topic: str,
        record: KeyedValue,
        headers: RecordHeaders,
        on_delivery: Callable[[DeliveryReport], None],
    ) -> DeliveryError | None:
        """Why it could not be queued. Raises ClientFailed."""
        try:
            self._producer.send(
                topic, record.value, key=record.key, headers=headers, on_delivery=on_delivery,
                wait_s=DELIVERY_TIMEOUT_S,
            )  # fmt: skip
        except ClientFailed:
            raise
        except BusError as error:
            return DeliveryError(error.code, error.detail, topic)
        return None
