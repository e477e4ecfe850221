"""Simulated consumers: one that reads given partitions, and what every reader of a log does.

In: partitions and where to begin. Out: an event `poll` per answer that moves the position. Never:
a returned record whose batch has a wrong checksum or whose offset is below the position.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from tests.checker.history import Poll
from tests.simulation.client import Client, ClientSurroundings
from tests.simulation.dialect import OWN, Dialect, Fetched
from tests.simulation.wire import WireError

EARLIEST, LATEST = -2, -1
RETRY_S = (0.05, 0.3)


@dataclass(slots=True)
class Reading:
    """One assignment of one partition."""

    topic: str
    partition: int
    position: int
    assignment: str
    from_beginning: bool = False
    leader_epoch: int = -1
    high_watermark: int = -1


class Reader:
    """Fetches one partition at a time for the owner of the assignment."""

    def __init__(self, client: Client, group: str = "") -> None:
        self.client = client
        self.group = group
        self.around = client.around
        self._assignments = 0

    def begin(self, topic: str, partition: int, position: int, first: bool) -> Reading:
        """Starts a new assignment."""
        self._assignments += 1
        name = f"{self.client.name}/{self._assignments}"
        return Reading(topic, partition, position, name, first)

    async def start_of(self, topic: str, partition: int, timestamp: int = EARLIEST) -> int:
        """The first offset (or with LATEST the end that a consumer sees)."""
        _view, leader = await self.client.leader(topic, partition)
        dialect = self.client.dialect
        request = dialect.list_offsets(self.client.place(topic, partition), timestamp)
        found = dialect.read_found(await self.client.ask(leader, ApiKey.LIST_OFFSETS, request))
        if found.error_code:
            self.client.forget_leader(topic, partition)
            raise WireError(f"ListOffsets: {ErrorCode(found.error_code).name}")
        return found.offset

    async def poll(self, reading: Reading) -> list[tuple[int, str]]:
        """Fetches once and returns the records. Raises WireError."""
        view, leader = await self.client.leader(reading.topic, reading.partition)
        epoch = view.partitions[reading.partition].leader_epoch
        dialect, place = self.client.dialect, self.client.place(reading.topic, reading.partition)
        request = dialect.fetch(place, reading.position, epoch, reading.leader_epoch)
        result = dialect.read_fetched(await self.client.ask(leader, ApiKey.FETCH, request))
        self._check_error(reading, result)
        return self._process_response(reading, result)

    def _check_error(self, reading: Reading, result: Fetched) -> None:
        where = f"{reading.topic}-{reading.partition}"
        if result.diverging_end >= 0:
            self.around.complain(
                f"{self.client.name} at {reading.position} of {where} gets the error that its log ends at "
                f"{result.diverging_end}: what it has read was truncated"
            )
        if not result.error_code:
            return
        code = ErrorCode(result.error_code)
        self.client.forget_leader(reading.topic, reading.partition)
        if (
            code is ErrorCode.OFFSET_OUT_OF_RANGE
            and reading.position >= result.log_start_offset >= 0
        ):
            self.around.complain(
                f"{self.client.name} at {reading.position} of {where} is out of range: the log "
                f"has gone back (starts at {result.log_start_offset})"
            )
        raise WireError(f"Fetch: {code.name}")

    def _process_response(self, reading: Reading, result: Fetched) -> list[tuple[int, str]]:
        position = reading.position
        records, end, epoch = self._read(reading, result.data)
        reading.high_watermark = result.high_watermark
        if end == position:
            return []
        reading.position, reading.leader_epoch = end, epoch
        self.around.record(
            Poll(
                at_ms=self.client.now_ms, consumer=self.client.name, assignment=reading.assignment,
                topic=reading.topic, partition=reading.partition, position=position, next=end,
                records=records, group=self.group, from_beginning=reading.from_beginning,
            )
        )  # fmt: skip
        return records

    def _read(self, reading: Reading, data: bytes) -> tuple[list[tuple[int, str]], int, int]:
        position, end, epoch = reading.position, reading.position, reading.leader_epoch
        records: list[tuple[int, str]] = []
        for batch in self.client.dialect.batches(data):
            if batch.end_offset > position:
                records += [
                    (offset, value) for offset, value in batch.records if offset >= position
                ]
                end, epoch = batch.end_offset, batch.leader_epoch
        return records, end, epoch


class SimConsumer:
    """Reads given partitions for ever, or once from the beginning to the end."""

    def __init__(self, name: str, around: ClientSurroundings, dialect: Dialect = OWN) -> None:
        self.client = Client(name, around, dialect)
        self.reader = Reader(self.client)
        self.around = around
        self.stopping = False

    async def run(self, targets: list[tuple[str, int]]) -> None:
        """Reads all targets in turn, each partition without a gap; the targets may change."""
        readings: dict[tuple[str, int], Reading] = {}
        while not self.stopping:
            for topic, partition in list(targets):
                try:
                    reading = readings.get((topic, partition))
                    if reading is None:
                        start = await self.reader.start_of(topic, partition)
                        reading = self.reader.begin(topic, partition, start, True)
                        readings[topic, partition] = reading
                    await self.reader.poll(reading)
                except WireError as error:
                    if "OFFSET_OUT_OF_RANGE" in str(error):
                        readings.pop((topic, partition), None)
                    await self._pause()

    async def read_all(self, topic: str, partition: int, until: float) -> Reading | None:
        """Reads one partition from its beginning to its high watermark; None on timeout."""
        reading: Reading | None = None
        end = -1
        while self.client.clock.monotonic() < until:
            try:
                if reading is None:
                    start = await self.reader.start_of(topic, partition)
                    reading = self.reader.begin(topic, partition, start, True)
                if end < 0:
                    end = await self.reader.start_of(topic, partition, LATEST)
                if reading.position >= end:
                    return reading
                await self.reader.poll(reading)
            except WireError as error:
                if "OFFSET_OUT_OF_RANGE" in str(error):
                    reading, end = None, -1
                await self._pause()
        return None

    async def _pause(self) -> None:
        low, high = RETRY_S
        await asyncio.sleep(low + (high - low) * self.around.dice.random())
