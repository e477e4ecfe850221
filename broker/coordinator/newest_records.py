"""The newest record of each key, of the batches of one partition in their order.

In: whole batches, which transactions were aborted and which are open. Out: keys and values as they
are stored, each key once; forms of one key in the order in which they were written, and a tombstone
is one of them. Never: what they mean, I/O. Decoded afterwards, a partition costs what is alive in
it, however often each key was written.

As Apache Kafka's coordinators do, records of aborted transactions are left out. Those of open ones
are kept aside (``OpenTransactions``): what they committed is not in force yet.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from zlib import crc32

from crc32c import crc32c

from broker.config.key import MAX_LONG
from broker.coordinator.open_transactions import OpenTransactions
from broker.log.producer_state import ProducerState
from broker.log.txnindex import AbortedTransaction
from bus.errors import ErrorCode
from bus.limits import MAX_RECORDS_PER_BATCH
from bus.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    TRANSACTIONAL,
    RecordsError,
)
from bus.records.compression import decompress
from bus.records.key_values import NewestValues, add_newest

RECORDS_PER_PIECE = 200
"""Taken between two moments at which other work may run: less than a millisecond."""

TABLES = 64
"""Of keys: of a million keys each has so few that growing it takes less than a millisecond."""

VERSION_BYTES = 2
"""At the beginning of a key; another form of the same key differs there."""

_HEAD = Struct(">qi4xbIhi16xq6xi").unpack_from
"""Of a batch's header what is needed here; a NamedTuple of all takes as long as the rest."""

StoredBatch = tuple[int, int, int, int, int, int, int]
"""Where the records of a batch lie in a buffer (begin, end), then of its header: base offset, end
offset, attributes, producer id, count of records. A plain tuple, for there is one for each commit
that was ever made."""


def stored_batches(data: bytes, floor: int, limit: int) -> list[StoredBatch]:
    """The batches that ``data`` consists of, which are to lie in [floor, limit).

    Offsets may be missing between two batches and inside one: the log was cleaned. Raises
    RecordsError where batches overlap or leave that range, a checksum is wrong or the last one is
    not whole: that is damage, for a base offset lies outside the checksum.
    """
    batches, at, view = [], 0, memoryview(data)
    while at + HEADER_BYTES <= len(data):
        base, length, magic, crc, attributes, delta, producer_id, count = _HEAD(data, at)
        end = at + LENGTH_AND_OFFSET_BYTES + length
        if magic != MAGIC or end > len(data) or end < at + HEADER_BYTES:
            raise _damaged(f"no whole batch at byte {at}")
        if base < floor or delta < 0 or base + delta >= limit:
            raise _damaged(f"offset {base} is not in [{floor}, {limit})")
        if crc32c(view[at + CRC_FROM : end]) != crc:
            raise _damaged("the CRC does not match")
        if not 0 <= count <= MAX_RECORDS_PER_BATCH:
            raise _damaged(f"{count} records")
        floor = base + delta + 1
        batches.append((at + HEADER_BYTES, end, base, floor, attributes, producer_id, count))
        at = end
    if not data or at != len(data):
        raise _damaged("a batch that does not end")
    return batches


def records_of(data: bytes, batch: StoredBatch) -> tuple[bytes, int, int]:
    """Bytes in which the records of a batch of ``data`` lie, unpacked; where they begin and end."""
    at, end, _, _, attributes, _, _ = batch
    codec = attributes & COMPRESSION_MASK
    if not codec:
        return data, at, end
    unpacked = decompress(codec, memoryview(data)[at:end])
    return unpacked, 0, len(unpacked)


class AppliedBatches:
    """Which transactional batches count. Invariant: nothing is appended meanwhile."""

    def __init__(self, aborted: Iterable[AbortedTransaction], producers: ProducerState) -> None:
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        """Of each producer the first and last offsets, rising: it has one transaction at a time."""
        for one in sorted(aborted, key=lambda entry: entry.first_offset):
            spans = self._aborted.setdefault(one.producer_id, [])
            spans.append((one.first_offset, one.last_offset))
        self._open_since = producers.open_transactions()

    def __contains__(self, batch: StoredBatch) -> bool:
        _, _, base_offset, _, attributes, producer_id, _ = batch
        if attributes & CONTROL:
            return False
        if not attributes & TRANSACTIONAL:
            return True
        if self.is_open(batch):
            return False
        spans = self._aborted.get(producer_id, [])
        slot = bisect_right(spans, (base_offset, MAX_LONG)) - 1
        return slot < 0 or base_offset > spans[slot][1]

    def is_open(self, batch: StoredBatch) -> bool:
        """Whether its transaction has no end yet."""
        _, _, base_offset, _, attributes, producer_id, _ = batch
        opened = self._open_since.get(producer_id)
        return opened is not None and base_offset >= opened and not attributes & CONTROL


class NewestRecords:
    """What was taken so far, and in ``transactions`` what is not in force yet. A tombstone stays,
    because another form of the same key may stand before it.

    Invariant: keys that differ in their version alone are in one table, in the order in which they
    were written. One table for all would hold the loop for ten milliseconds and more, whenever it
    grows and when it is freed.
    """

    def __init__(self, applied: AppliedBatches, transactions: OpenTransactions) -> None:
        self._applied = applied
        self._transactions = transactions
        self._tables: list[NewestValues] = [{} for _ in range(TABLES)]
        self._written: NewestValues = {}
        """Of this piece, not in the tables yet."""
        self._taken = 0

    def add(self, data: bytes, batches: list[StoredBatch], from_offset: int) -> Iterator[None]:
        """Take the batches of ``data`` that do not end before an offset; yields where other work
        may run. RecordsError if one cannot be unpacked; those before it are taken."""
        for batch in batches:
            _, _, base_offset, end_offset, attributes, producer_id, left = batch
            if end_offset <= from_offset:
                continue
            is_applied = not attributes & (CONTROL | TRANSACTIONAL) or batch in self._applied
            if not is_applied and not self._applied.is_open(batch):
                continue
            body, at, end = records_of(data, batch)
            is_usual = is_applied and not self._transactions
            written: NewestValues = self._written if is_usual else {}
            while self._taken + left >= RECORDS_PER_PIECE:
                count = RECORDS_PER_PIECE - self._taken
                at = add_newest(written, body, at, end, count)
                left, self._taken = left - count, 0
                if is_usual:
                    self._merge(written)
                yield
            at = add_newest(written, body, at, end, left)
            self._taken += left
            if at != end:
                raise _damaged(f"{end - at} bytes after the last record")
            if not is_applied:
                self._transactions.on_open(base_offset, producer_id, written)
            elif not is_usual:  # what an open transaction wrote of these before is older
                self._merge(self._written)
                self._transactions.on_newer(written)
                self._merge(written)

    def drain(self) -> Iterator[tuple[bytes, bytes | None]]:
        """All of it, which is not held any more then."""
        self._merge(self._written)
        while self._tables:
            yield from self._tables.pop().items()

    def _merge(self, written: NewestValues) -> None:
        tables = self._tables
        for key, value in written.items():
            table = tables[crc32(key[VERSION_BYTES:]) % TABLES]
            table.pop(key, None)  # it moves to the end
            table[key] = value
        written.clear()


def _damaged(what: str) -> RecordsError:
    return RecordsError(ErrorCode.CORRUPT_MESSAGE, what)
