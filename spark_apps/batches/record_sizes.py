"""How large the records of a batch are, before it is read.

Asks the bus for a few records at both ends of each partition's range and at places between. In: the
offsets of a batch. Out: bytes of a record, by partition. Never: a whole batch; that costs some
milliseconds, and is done only where the batch may be large. Nor a wait for a leader that does not
answer which is longer than what its answer saves.
"""

from __future__ import annotations

import logging

from bus.client.model import TopicAndPartition
from bus.errors import BusError
from bus.settings import BusSettings
from spark_apps.batches.message import OffsetRanges
from spark_apps.batches.record_samples import RecordSampler
from spark_apps.batches.slices import RecordBytes, bytes_of

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
TIMEOUT_S = 5.0  # of waiting, at most, for all partitions of a batch
SLICE_S = 0.15
"""What a slice costs. No answer is waited for longer than reading the slices takes that are made
without it: a leader that has just died must not hold up the alarms of all others."""
LEAST_S = 0.005  # of patience: less is no answer's time


class RecordSizes:
    """Of one query's partitions; for its thread. Invariant: `_known` is the newest answer, and
    `_silent` has those whose newest question has none."""

    def __init__(self, bus: BusSettings, client_id: str, max_bytes: int) -> None:
        self._sampler = RecordSampler(bus, client_id)
        self._max_bytes = max_bytes
        self._known: dict[TopicAndPartition, int] = {}
        self._silent: set[TopicAndPartition] = set()

    def of(self, offsets: OffsetRanges) -> RecordBytes:
        """Bytes of a record of each partition; too many rather than too few where the bus does not
        answer."""
        count = sum(end - first for first, end in offsets.values())
        largest = dict.fromkeys(offsets, LARGEST_BYTES)
        if bytes_of(offsets, largest) <= self._max_bytes:
            return largest
        if count > UNASKED or not self._fits(offsets):
            unanswered = {place: self._unanswered(place) for place in offsets}
            found = self._ask(offsets, self._patience_s(offsets, unanswered))
            self._known |= found
            return unanswered | found
        return {place: self._known[place] for place in offsets}

    def close(self) -> None:
        """Nobody asks any more."""
        self._sampler.close()

    def _fits(self, offsets: OffsetRanges) -> bool:
        """Whether the batch is small, as far as sizes are known."""
        known = self._known
        return offsets.keys() <= known.keys() and bytes_of(offsets, known) <= self._max_bytes

    def _unanswered(self, place: TopicAndPartition) -> int:
        """Of a partition whose leader does not answer. So large that no more than `UNASKED` records
        of it come at once: that many are taken without a question at any time."""
        known = self._known.get(place)
        return LARGEST_BYTES if known is None else max(known, self._max_bytes // UNASKED)

    def _patience_s(self, offsets: OffsetRanges, unanswered: RecordBytes) -> float:
        slices = bytes_of(offsets, unanswered) // self._max_bytes
        return min(TIMEOUT_S, SLICE_S * (1 + slices))

    def _ask(self, offsets: OffsetRanges, patience_s: float) -> dict[TopicAndPartition, int]:
        """The largest one of all places. Who was silent the last time is asked last, and after one
        question without an answer no more. A question is waited for half of what patience is left,
        so that there is some for those who answer."""
        found: dict[TopicAndPartition, int] = {}
        left_s = patience_s
        try:
            for place in sorted(offsets, key=self._silent.__contains__):
                if left_s < LEAST_S:
                    break
                self._silent.add(place)
                asked: list[int] = []
                for at in places_of(*offsets[place]):
                    size, waited_s = self._sampler.record_bytes(place, at, left_s / 2)
                    left_s -= waited_s
                    if size is None:
                        break
                    asked.append(size)
                else:
                    self._silent.discard(place)
                    found |= {place: max(asked)} if any(asked) else {}
        except BusError as error:
            log.warning("how large the records of a batch are, the bus does not say: %s", error)
        return found


def places_of(first: int, end: int) -> list[int]:
    """Offsets of a range, evenly: both ends, and the more between them the longer it is."""
    count = end - first
    wanted = min(PLACES, max(2, 1 + count // RECORDS_PER_PLACE), count)
    steps = max(1, wanted - 1)
    return sorted({first + number * (count - 1) // steps for number in range(wanted)})
