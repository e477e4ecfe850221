"""The simulated network is TCP: ordered and complete, or silent, or reset."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.simulation.loop import ProcessLife
from tests.simulation.network import Cut, ProcessNetwork
from tests.simulation.world import SimWorld

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"


class Talker(asyncio.Protocol):
    """Keeps what it receives, and echoes it if requested."""

    def __init__(self, echo: bool = False) -> None:
        self.echo, self.got, self.ended, self.blocked = echo, bytearray(), "", 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.echo:
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.blocked += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = type(exc).__name__ if exc else "closed"


class Pair:
    """A connected server and client on separate hosts."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.server_life, self.client_life = ProcessLife("server"), ProcessLife("client")
        for life in (self.server_life, self.client_life):
            life.deathbed.append(lambda life=life: world.network.process_died(life))
        self.far: list[Talker] = []
        self.near = Talker()
        self.network = ProcessNetwork(world.network, self.client_life, CLIENT)

    async def connect(self, echo: bool = True) -> None:
        def accepted() -> Talker:
            self.far.append(Talker(echo))
            return self.far[-1]

        listening = ProcessNetwork(self.world.network, self.server_life, SERVER)
        await listening.listen(SERVER, 9092, accepted)
        await self.network.connect(SERVER, 9092, lambda: self.near)
        await asyncio.sleep(0.1)


def play(story: Callable[[Pair], Awaitable[None]]) -> None:
    world = SimWorld("network-test")
    world.run(story(Pair(world)))
    world.end()


def test_bytes_come_whole_and_in_order_through_lost_packets():
    """Bytes arrive whole and in order although every third piece is retransmitted."""

    async def story(pair: Pair) -> None:
        pair.world.network.lost_packet = 0.3
        await pair.connect()
        sent = bytes(random.Random(1).randbytes(50_000))
        for start in range(0, len(sent), 1000):
            pair.near.transport.write(sent[start : start + 1000])
            await asyncio.sleep(0.001)
        assert await pair.world.until(lambda: len(pair.near.got) == len(sent), 60)
        assert bytes(pair.near.got) == sent == bytes(pair.far[0].got)

    play(story)


def test_a_dropping_partition_is_silence_and_its_bytes_come_after_it():
    """Neither end notices the partition; written bytes arrive after it."""

    async def story(pair: Pair) -> None:
        await pair.connect()
        pair.world.network.cut(CLIENT, SERVER, Cut.DROP)
        pair.near.transport.write(b"hello")
        await asyncio.sleep(30)
        assert not pair.far[0].got
        assert not pair.near.ended
        pair.world.network.repair(CLIENT, SERVER)
        assert await pair.world.until(lambda: bytes(pair.near.got) == b"hello", 5)

    play(story)


def test_a_cut_of_one_port_leaves_connections_to_others_alone():
    """Both directions of a connection belong to its listener's port."""

    async def story(pair: Pair) -> None:
        await pair.connect()
        network = pair.world.network
        for way in ((CLIENT, SERVER), (SERVER, CLIENT)):
            network.cut(*way, Cut.DROP, 9093)
        pair.near.transport.write(b"heard")
        assert await pair.world.until(lambda: bytes(pair.near.got) == b"heard", 5)
        network.cut(SERVER, CLIENT, Cut.DROP, 9092)
        pair.near.transport.write(b", later")
        await asyncio.sleep(30)
        assert bytes(pair.far[0].got) == b"heard, later"
        assert bytes(pair.near.got) == b"heard"
        network.repair(SERVER, CLIENT)
        assert await pair.world.until(lambda: bytes(pair.near.got) == b"heard, later", 5)

    play(story)


def test_a_rejecting_partition_resets_who_writes_and_leaves_the_other_half_open():
    """The server does not know until it writes itself."""

    async def story(pair: Pair) -> None:
        await pair.connect()
        for way in ((CLIENT, SERVER), (SERVER, CLIENT)):
            pair.world.network.cut(*way, Cut.REJECT)
        pair.near.transport.write(b"x")
        await asyncio.sleep(1)
        assert pair.near.ended == "ConnectionResetError"
        assert not pair.far[0].ended
        with pytest.raises(ConnectionRefusedError):
            await pair.network.connect(SERVER, 9092, Talker)
        pair.far[0].transport.write(b"y")
        await asyncio.sleep(1)
        assert pair.far[0].ended == "ConnectionResetError"

    play(story)


def test_a_dead_process_is_an_end_a_dead_machine_is_silence():
    """kill -9 closes sockets; a loss of power says nothing until the machine is up again."""

    async def story(pair: Pair) -> None:
        await pair.connect()
        pair.server_life.die()
        await asyncio.sleep(1)
        assert pair.near.ended == "closed"
        pair.server_life = ProcessLife("server#2")
        pair.near = Talker()
        await pair.connect()
        pair.world.network.host_lost_power(SERVER)
        pair.near.transport.write(b"anybody?")
        await asyncio.sleep(60)
        assert not pair.near.ended
        pair.world.network.host_is_up(SERVER)
        await asyncio.sleep(5)
        assert pair.near.ended == "ConnectionResetError"

    play(story)


def test_who_does_not_read_holds_up_who_writes():
    """The window of a paused process fills, then the writer's buffer."""

    async def story(pair: Pair) -> None:
        await pair.connect(echo=False)
        pair.world.loop.pause(pair.server_life)
        for _ in range(100):
            pair.near.transport.write(bytes(10_000))
            await asyncio.sleep(0.01)
        assert pair.near.blocked == 1
        assert pair.near.transport.get_write_buffer_size() > 500_000
        pair.world.loop.resume(pair.server_life)
        assert await pair.world.until(lambda: len(pair.far[0].got) == 1_000_000, 10)

    play(story)
