"""Uninvited clients of a world: batches up to the limit, fetches of all of it that are never
read, thousands of requests in one write.

In: a cluster, a random generator, an end time. Out: connections that behave so; a complaint when a
broker buffers more for clients that do not read than it may. Never: a record that the rules check;
guests have their own topic.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from broker.network.limits import MAX_UNSENT_BYTES, RESPONSE_MEMORY_BYTES
from bus.protocol.apis import ApiKey
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.simulation.admin import SimAdmin
from tests.simulation.client import Client
from tests.simulation.cluster import SimCluster
from tests.simulation.hostile import Hostile, many_api_versions, many_fetches
from tests.simulation.machine import PORT, SimMachine
from tests.simulation.wire import WireError

TOPIC = "bulk"
COME = 0.25
"""Share of the worlds that have guests: they cost as much as everything else together."""
PAUSE_S = (1.0, 5.0)
LARGEST_RECORD_BYTES = 1_000_000
LARGE_BATCHES = 6
FETCHES = 64
FLOOD_REQUESTS = (100, 3_000)
MOST_AT_A_TIME = 6

FOLLOWERS_BYTES = 2 * 10 * 1024 * 1024
"""Buffered bytes of two followers beside the clients (replica.fetch.response.max.bytes each)."""


class Guests:
    """Invariant: at most MOST_AT_A_TIME connections are open."""

    def __init__(self, cluster: SimCluster, dice: random.Random) -> None:
        self.cluster, self.dice = cluster, dice
        self.world = cluster.world
        self.around = self.world.client_surroundings("guest", cluster.bootstrap)
        self.most_held_bytes = 0
        self._there: list[Hostile] = []
        self._client = Client("guest", self.around)
        self._written = 0

    async def run(self, until: float) -> None:
        """Opens and closes connections until the end time."""
        copies = self.cluster.replication_factor
        if not await SimAdmin("guest", self.around).create_surely(TOPIC, 1, copies, {}, until):
            return
        while self.world.loop.time() < until:
            low, high = PAUSE_S
            await asyncio.sleep(low + (high - low) * self.dice.random())
            what = self.dice.choice(
                (self._write, self._do_not_read, self._do_not_read, self._flood)
            )
            with suppress(OSError, WireError):
                await what()
        for one in self._there:
            one.close()

    async def _write(self) -> None:
        """Writes one batch, mostly of the maximum size; few in all, since the disks are in
        memory."""
        if self._written >= LARGE_BATCHES:
            return
        view, leader = await self._client.leader(TOPIC, 0)
        size = self.dice.choice(
            (LARGEST_RECORD_BYTES, self.dice.randrange(1, LARGEST_RECORD_BYTES))
        )
        batch = build_batch([Record(key=None, value=bytes(size), timestamp_ms=self._client.now_ms)])
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=TOPIC, topic_id=view.topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        await self._client.ask(leader, ApiKey.PRODUCE, request)
        self._written += 1

    async def _do_not_read(self) -> None:
        _, leader = await self._client.leader(TOPIC, 0)
        host, port = self._client.brokers[leader]
        one = await self._come(host, port, reads=False)
        one.write(many_fetches(FETCHES, TOPIC, 0))

    async def _flood(self) -> None:
        host, _ = self.dice.choice(self.cluster.bootstrap)
        one = await self._come(host, PORT, reads=True)
        one.write(many_api_versions(self.dice.randrange(*FLOOD_REQUESTS)))

    async def _come(self, host: str, port: int, *, reads: bool) -> Hostile:
        one = await Hostile.open(self.around, host, port, reads=reads)
        self._there = [each for each in self._there if not each.lost] + [one]
        if len(self._there) > MOST_AT_A_TIME:
            self._there.pop(0).close()
        return one

    def check(self) -> None:
        """Checks how much brokers buffer for clients that do not read."""
        for machine, _ in self.cluster.serving():
            held_bytes = unsent_bytes(machine)
            self.most_held_bytes = max(self.most_held_bytes, held_bytes)
            each = MAX_UNSENT_BYTES + LARGEST_RECORD_BYTES
            if held_bytes > RESPONSE_MEMORY_BYTES + FOLLOWERS_BYTES + MOST_AT_A_TIME * each:
                self.world.complain(f"{machine.name} holds {held_bytes} bytes that are not read")


def unsent_bytes(machine: SimMachine) -> int:
    """Bytes that a machine's process has written and its kernel could not send."""
    process = machine.process
    return sum(
        transport.get_write_buffer_size()
        for transport in machine.world.network.transports.values()
        if process is not None and transport.life is process.life
    )
