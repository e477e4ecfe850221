"""A few records of a partition, to see how large they are.

The leader is asked by our own client, which finds a new one at once: a batch that came late because
a leader died is the very one whose size is asked for. librdkafka is asked where our client cannot
log in. In: a partition and an offset. Out: bytes of a record there, on average. Never: a wait that
is longer than asked for, but for one node that stands still (`NODE_TIMEOUT_MS`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from itertools import islice
from types import MappingProxyType

from bus.client.kafka.consumer import Consumer
from bus.client.model import ConsumedRecord, TopicAndPartition, TopicPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.errors import BusError, ErrorCode
from bus.records.batch import Buffer
from bus.records.read import read_all
from bus.records.record import Record
from bus.settings import BusSettings

log = logging.getLogger(__name__)

SAMPLED = 100  # records
SAMPLE_BYTES = 64 << 10
"""Of whole batches; of a larger batch, or a larger record, all the same."""
NODE_TIMEOUT_MS = 300
"""About as long as two slices take to read: see `record_sizes.SLICE_S`."""
POLL_S = 0.1
_CONSUMER = MappingProxyType(
    {
        "fetch.wait.max.ms": 5,
        "fetch.message.max.bytes": SAMPLE_BYTES,
        "queued.max.messages.kbytes": 1 << 10,
        "isolation.level": "read_committed",
    }
)


class RecordSampler:
    """For one thread."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        self._bus = bus
        self._client_id = client_id
        self._leaders = PartitionLeaders(bus, f"{client_id}-sizes", NODE_TIMEOUT_MS)
        self._consumer: Consumer | None = None

    def record_bytes(
        self, place: TopicAndPartition, offset: int, patience_s: float
    ) -> tuple[int | None, float]:
        """What a few records from there on have on average (0 where there are none, None without
        an answer), and for how many seconds nothing came. Raises BusError."""
        if self._consumer is not None:
            return self._by_consumer(self._consumer, place, offset, patience_s)
        began_s = time.monotonic()
        try:
            batches = self._leaders.fetch(place, offset, SAMPLE_BYTES)
        except BusError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            self._consumer = Consumer(self._bus, client_id=self._client_id, overrides=_CONSUMER)
            return self._by_consumer(self._consumer, place, offset, patience_s)
        if batches is None:
            log.debug("%s-%d: %s", *place, self._leaders.failure)
            return None, time.monotonic() - began_s
        return _average(_records_from(batches, offset)), 0.0

    def close(self) -> None:
        """Ask no more."""
        self._leaders.close()
        if self._consumer is not None:
            self._consumer.close()

    def _by_consumer(
        self, consumer: Consumer, place: TopicAndPartition, offset: int, patience_s: float
    ) -> tuple[int | None, float]:
        """One partition at a time: of several, librdkafka fetches those again that have answered,
        and others wait."""
        consumer.assign({TopicPartition(*place): offset})
        records: list[ConsumedRecord] = []
        waited_s = 0.0
        while not records and not consumer.at_end and waited_s < patience_s:
            began_s = time.monotonic()
            records = consumer.poll(SAMPLED, min(POLL_S, patience_s - waited_s))
            waited_s += 0.0 if records else time.monotonic() - began_s
        is_answered = bool(records) or consumer.at_end
        consumer.assign({})
        return (_average(records) if is_answered else None), waited_s


def _records_from(batches: Buffer, offset: int) -> list[Record]:
    found = (record for _, record in read_all(batches) if record.offset >= offset)
    return list(islice(found, SAMPLED))


def _average(records: Iterable[Record | ConsumedRecord]) -> int:
    sizes = [len(record.value or b"") + len(record.key or b"") for record in records]
    return max(1, sum(sizes) // len(sizes)) if sizes else 0
