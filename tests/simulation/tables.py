"""Tables in a world: compacted topics, who writes their keys, and what a reader may find of them.

In: producers that own keys, readers from the first offset. Out: complaints. The rules: the newest
value of a key that was acknowledged, or a newer one, is found by whoever reads from the start; a key
whose newest record is a tombstone has no older value any more; offsets rise. As in Apache Kafka, a
replica that was out of sync for longer than tombstones are kept may have a value whose tombstone is
gone (`LateReplicas`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bus.records.batch import Buffer, iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from tests.simulation.client import ClientSurroundings
from tests.simulation.consumer import Reader, Reading, SimConsumer
from tests.simulation.dialect import Fetched
from tests.simulation.producer import Line, ProducerKind, Sending, SimProducer
from tests.simulation.wire import WireError

KEYS = 4
"""Of each writer in each partition; one more is written once and deleted."""
TOMBSTONES = 0.25
PAUSE_S = (0.0, 0.25)
"""Between two fetches of a reader: what it has not reached yet may be cleaned meanwhile."""

Partition = tuple[str, int]


@dataclass(slots=True)
class KeyHistory:
    """What was written to a key, by the number of the write. `stored`: those that were acknowledged,
    with their offsets. `undecided`: writes that their producer gave up; a broker that was paused may
    store one at any time later."""

    tombstones: set[int] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)
    stored: list[tuple[int, int]] = field(default_factory=list)
    sent: int = 0


class Found(NamedTuple):
    """What a reader found of a key: the number of its newest write, and whether it is a value."""

    number: int
    is_value: bool


class TableJournal:
    """All keys of all tables of a world."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, int, str], KeyHistory] = {}
        self.may_be_back: dict[Partition, int] = {}
        """Below which offset a tombstone may have gone before a late replica copied it."""

    def sending(self, topic: str, partition: int, key: str, is_tombstone: bool) -> int:
        """Another write; its number."""
        history = self._keys.setdefault((topic, partition, key), KeyHistory())
        history.sent += 1
        if is_tombstone:
            history.tombstones.add(history.sent)
        return history.sent

    def acknowledge(
        self, topic: str, partition: int, key: str, number: int, offset: int
    ) -> None:
        """That write is stored there; -1 if nobody was told where."""
        self._keys[topic, partition, key].stored.append((number, offset))

    def give_up(self, topic: str, partition: int, key: str, number: int) -> None:
        """Nobody knows whether that write is stored, or will be."""
        self._keys[topic, partition, key].undecided.add(number)

    def acknowledged(self, place: Partition) -> dict[str, int]:
        """How many writes of each key are acknowledged, now."""
        return {
            key: len(history.stored)
            for (*where, key), history in self._keys.items()
            if tuple(where) == place
        }

    def what_is_wrong(
        self,
        place: Partition,
        found: dict[str, Found],
        acknowledged: dict[str, int],
        end_offset: int,
    ) -> Iterator[str]:
        """``acknowledged``: as it was when the reader began, who read up to ``end_offset``: a new
        leader need not know at once how far all is committed."""
        for key, count in acknowledged.items():
            history = self._keys[*place, key]
            known = history.stored[:count]
            number, at = max((one for one in known if 0 <= one[1] < end_offset), default=(0, 0))
            here = found.get(key)
            if not number or self._may_be_back(place, history, number, at):
                continue
            if here is None:
                gone = history.tombstones
                if not any(one >= number or one in history.undecided for one in gone):
                    yield f"{place}: write {number} of {key} is lost"
            elif here.number < number and here.number not in history.undecided:
                if not here.is_value and number in history.tombstones:
                    continue  # deleted then and now; the newer tombstone may have gone
                what = "its value" if here.is_value else "its tombstone"
                yield f"{place}: {what} {here.number} of {key} is back or the last, after {number}"


    def keys_that_may_be_back(self, place: Partition) -> set[str]:
        """Those whose newest write is a tombstone that a late replica may not have copied."""
        return {
            key
            for (*where, key), history in self._keys.items()
            if tuple(where) == place
            and history.stored
            and self._may_be_back(place, history, *max(history.stored))
        }

    def _may_be_back(self, place: Partition, history: KeyHistory, number: int, at: int) -> bool:
        return number in history.tombstones and at < self.may_be_back.get(place, 0)


def fold(data: Iterable[Buffer], complain: list[str]) -> dict[str, Found]:
    """The state of a table after reading batches in their order."""
    found: dict[str, Found] = {}
    end_offset, epoch = 0, -1
    for piece in data:
        for at, header in iter_batches(piece):
            if header.base_offset < end_offset or header.partition_leader_epoch < epoch:
                complain.append(f"offset {header.base_offset} of epoch "
                                f"{header.partition_leader_epoch} after {end_offset} of {epoch}")  # fmt: skip
            end_offset, epoch = header.end_offset, header.partition_leader_epoch
            for record in read_records(piece, at):
                key = bytes(record.key or b"").decode()
                value = record.value
                number = int(bytes(record.headers[0][1] or b"0"))
                found[key] = Found(number, value is not None)
    return found


class TableWriter(SimProducer):
    """Writes keys that no other one writes: values mostly, tombstones now and then, in its order."""

    def __init__(
        self, name: str, around: ClientSurroundings, kind: ProducerKind, journal: TableJournal
    ) -> None:
        super().__init__(name, around, kind)
        self._journal = journal
        self._place: Partition = ("", 0)
        self._writes: dict[bytes, list[tuple[str, int]]] = {}

    async def _begin(
        self, topic: str, partition: int, count: int, within_s: float
    ) -> Sending | None:
        self._place = topic, partition
        return await super()._begin(topic, partition, count, within_s)

    def _build(self, values: list[str], sequence: int) -> bytes:
        dice = self.around.dice
        records, writes = [], []
        for _ in values:
            if dice.random() < 0.05:
                key, is_tombstone = f"{self.name}/once{dice.randrange(0, 40)}", dice.random() < 0.7
            else:
                key = f"{self.name}/{dice.randrange(0, KEYS)}"
                is_tombstone = dice.random() < TOMBSTONES
            number = self._journal.sending(*self._place, key, is_tombstone)
            value = None if is_tombstone else b"x" * 40
            headers = [("n", str(number).encode())]
            records.append(
                Record(key.encode(), value, headers, timestamp_ms=self.client.now_ms)
            )
            writes.append((key, number))
        batch = build_batch(
            records, producer_id=self._producer_id, producer_epoch=self._epoch,
            base_sequence=sequence,
        )  # fmt: skip
        self._writes[bytes(batch)] = writes
        return bytes(batch)

    def _sent(self, topic: str, partition: int, value: str) -> int:
        return 0

    def _acknowledge(self, sending: Sending, line: Line, offset: int) -> None:
        line.begun = True
        sending.offset = max(sending.offset, offset)
        self.acknowledged += len(sending.ops)
        for index, (key, number) in enumerate(self._writes.pop(sending.batch)):
            at = offset + index if offset >= 0 else -1
            self._journal.acknowledge(sending.topic, sending.partition, key, number, at)
        self._decide(sending, line, True)

    def _fail(self, sending: Sending, line: Line) -> None:
        for key, number in self._writes.pop(sending.batch):
            self._journal.give_up(sending.topic, sending.partition, key, number)
        line.broken = True
        self._decide(sending, line, False)


class TableReader(Reader):
    """Reads a table from its first offset."""

    def __init__(self, consumer: SimConsumer) -> None:
        super().__init__(consumer.client)
        self.pieces: list[Buffer] = []

    def _process_response(self, reading: Reading, result: Fetched) -> list[tuple[int, str]]:
        batches = [header for _, header in iter_batches(result.data)]
        reading.high_watermark = result.high_watermark
        if batches and batches[-1].end_offset > reading.position:
            self.pieces.append(result.data)
            reading.position = batches[-1].end_offset
            reading.leader_epoch = batches[-1].partition_leader_epoch
        return []


class TableAuditor(SimConsumer):
    """Reads tables again and again, and compares what it found with the journal.

    A reading that took longer than tombstones are kept says nothing: a tombstone may have gone since
    its value was read.
    """

    def __init__(
        self, name: str, around: ClientSurroundings, journal: TableJournal, retention_s: float
    ) -> None:
        super().__init__(name, around)
        self._journal = journal
        self._retention_s = retention_s
        self.readings = 0

    async def audit(self, places: list[Partition]) -> None:
        """Until it is stopped."""
        while not self.stopping:
            for place in places:
                await self.look_at(place, self.client.clock.monotonic() + self._retention_s)
            await self._pause()

    async def look_at(self, place: Partition, until: float) -> bool:
        """Read one partition to its end; whether that was done in time."""
        began_at, acknowledged = self.client.clock.monotonic(), self._journal.acknowledged(place)
        self.reader = TableReader(self)
        reading = await self.read_all(*place, until)
        if reading is not None:
            await self._read_on(reading, until)
        took_s = self.client.clock.monotonic() - began_at
        is_whole = reading is not None and reading.position >= reading.high_watermark
        if reading is None or not is_whole or took_s >= self._retention_s:
            return False
        self.readings += 1
        wrong: list[str] = []
        found = fold(self.reader.pieces, wrong)
        end_offset = reading.position
        for one in (*wrong, *self._journal.what_is_wrong(place, found, acknowledged, end_offset)):
            self.around.complain(f"{self.client.name}: {one}")
        return True

    async def _read_on(self, reading: Reading, until: float) -> None:
        """Up to where all is committed now: while it was read, records may have been cleaned away for
        newer ones that lie behind the end it had at first."""
        while reading.position < reading.high_watermark:
            if self.client.clock.monotonic() >= until:
                return
            try:
                await self.reader.poll(reading)
            except WireError:
                await self._pause()

    async def _pause(self) -> None:
        low, high = PAUSE_S
        await asyncio.sleep(low + (high - low) * self.around.dice.random())
