"""How large the records of a batch are, before it is read.

Asks the bus for a few records at both ends of each partition's range and at places between. In: the
offsets of a batch. Out: bytes of a record, by partition. Never: a whole batch; that costs some
milliseconds, and is done only where the batch may be large.
"""

from __future__ import annotations

import logging
import time
from types import MappingProxyType

from bus.client.kafka.consumer import Consumer
from bus.client.model import ConsumedRecord, TopicAndPartition, TopicPartition
from bus.errors import BusError
from bus.settings import BusSettings
from spark_apps.batch_slices import RecordBytes, bytes_of
from spark_apps.message import OffsetRanges

log = logging.getLogger(__name__)

LARGEST_BYTES = 1 << 20
"""A record whose size nobody knows: `message.max.bytes` of a broker, if nobody has raised it."""
UNASKED = 250
"""A batch of no more records is judged by the sizes of those before it: 128 MiB if each of them has
512 KiB all at once."""
PLACES = 6
"""At most, of one partition, where records are asked for: a burst of large ones between small ones
is seen if it is a fifth of the range. Each costs two milliseconds."""
RECORDS_PER_PLACE = 1_000
TIMEOUT_S = 5.0  # for all partitions of a batch
_SAMPLE = MappingProxyType(
    {
        "fetch.wait.max.ms": 5,
        "fetch.message.max.bytes": 64 << 10,  # of each partition; of a larger record all the same
        "queued.max.messages.kbytes": 1 << 10,
        "isolation.level": "read_committed",
    }
)
_SAMPLED = 100  # records


class RecordSizes:
    """Of one query's partitions; for its thread. Invariant: `_known` is the newest answer."""

    def __init__(self, bus: BusSettings, client_id: str, max_bytes: int) -> None:
        self._bus = bus
        self._client_id = client_id
        self._max_bytes = max_bytes
        self._known: dict[TopicAndPartition, int] = {}
        self._consumer: Consumer | None = None

    def of(self, offsets: OffsetRanges) -> RecordBytes:
        """Bytes of a record of each partition; far too many rather than too few where the bus does
        not answer."""
        count = sum(end - first for first, end in offsets.values())
        largest = dict.fromkeys(offsets, LARGEST_BYTES)
        if bytes_of(offsets, largest) <= self._max_bytes:
            return largest
        if count > UNASKED or not self._fits(offsets):
            self._known |= largest | self._ask(offsets)
        return {place: self._known[place] for place in offsets}

    def close(self) -> None:
        """Nobody asks any more."""
        if self._consumer is not None:
            self._consumer.close()

    def _fits(self, offsets: OffsetRanges) -> bool:
        """Whether the batch is small, as far as sizes are known."""
        known = self._known
        return offsets.keys() <= known.keys() and bytes_of(offsets, known) <= self._max_bytes

    def _ask(self, offsets: OffsetRanges) -> dict[TopicAndPartition, int]:
        """The largest one of all places."""
        found: dict[TopicAndPartition, int] = {}
        deadline = time.monotonic() + TIMEOUT_S
        try:
            for place, (first, end) in offsets.items():
                asked = [self._sample(place, at, deadline) for at in places_of(first, end)]
                known = [size for size in asked if size]
                if known:
                    found[place] = max(known)
        except BusError as error:
            log.warning("how large the records of a batch are, the bus does not say: %s", error)
        return found

    def _sample(self, place: TopicAndPartition, offset: int, deadline: float) -> int:
        """What a few records from there on have on average; 0 without an answer. One partition at a
        time: of several, librdkafka fetches those again that have answered, and others wait."""
        consumer = self._consumer = self._consumer or Consumer(
            self._bus, client_id=self._client_id, overrides=_SAMPLE
        )
        consumer.assign({TopicPartition(*place): offset})
        records: list[ConsumedRecord] = []
        while not records and not consumer.at_end and time.monotonic() < deadline:
            records = consumer.poll(_SAMPLED, 0.1)
        consumer.assign({})
        sizes = [len(record.value or b"") + len(record.key or b"") for record in records]
        return max(1, sum(sizes) // len(sizes)) if sizes else 0


def places_of(first: int, end: int) -> list[int]:
    """Offsets of a range, evenly: both ends, and the more between them the longer it is."""
    count = end - first
    wanted = min(PLACES, max(2, 1 + count // RECORDS_PER_PLACE), count)
    steps = max(1, wanted - 1)
    return sorted({first + number * (count - 1) // steps for number in range(wanted)})
