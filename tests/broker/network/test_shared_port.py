"""Two listeners on one port: whoever begins with a handshake of TLS gets the one, everybody else the other."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest
import uvloop

from broker.network.limits import MAX_LOGIN_S, MAX_UNKNOWN_CLIENTS
from broker.network.port import ListenError
from broker.network.real import RealNetwork
from broker.network.shared_port import TLS_FIRST_BYTE, SharedPort
from broker.security.security_protocol import SecurityProtocol
from deploy.servers.databus_cluster import free_port
from tests.broker.network.test_listener import LIMITS, ListenerWorld, framed, read, until
from tests.broker.network.test_tls import ServerSide, client

Run = Callable[[Coroutine[object, object, None]], None]
MANY = replace(LIMITS, max_connections=5_000, max_connections_per_ip=5_000)
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


class SharedWorld:
    """A plain listener and one with TLS, which echo, at one address."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shared = SharedPort(RealNetwork(), lambda: self.now)
        self.plain = ListenerWorld(MANY, network=self.shared.endpoint(has_tls=False))
        self.encrypted = ListenerWorld(
            MANY, SecurityProtocol.SSL, ServerSide(), network=self.shared.endpoint(has_tls=True)
        )
        self.port = 0

    async def start(self) -> None:
        self.port = free_port()
        for one in (self.plain, self.encrypted):
            assert await one.listener.start("127.0.0.1", self.port) == self.port

    async def stop(self) -> None:
        for one in (self.plain, self.encrypted):
            await one.listener.stop()

    async def connect(
        self, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)


def play(story: Callable[[SharedWorld], Coroutine[object, object, None]], run: Run) -> None:
    async def main() -> None:
        world = SharedWorld()
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main())


@LOOPS
def test_clients_with_and_without_tls_are_served_at_one_address(run: Run) -> None:
    async def story(world: SharedWorld) -> None:
        plain = [await world.connect() for _ in range(3)]
        encrypted = [await world.connect(client()) for _ in range(3)]
        for at, (_, writer) in enumerate(plain + encrypted):
            writer.write(framed(b"request %d" % at))
        answers = [await read(reader) for reader, _ in plain + encrypted]
        assert answers == [b"request %d" % at for at in range(6)]
        assert (world.plain.seen, world.encrypted.seen) == (3, 3)

    play(story, run)


@LOOPS
def test_a_request_that_comes_byte_by_byte_is_one_request(run: Run) -> None:
    async def story(world: SharedWorld) -> None:
        reader, writer = await world.connect()
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in framed(b"slow"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        assert await read(reader) == b"slow"

    play(story, run)


@LOOPS
def test_any_first_byte_but_that_of_tls_is_a_plain_clients(run: Run) -> None:
    async def story(world: SharedWorld) -> None:
        for byte in range(256):
            reader, writer = await world.connect()
            before = world.plain.listener.connection_count, world.encrypted.listener.connection_count
            writer.write(bytes([byte]))
            if byte == TLS_FIRST_BYTE:
                await until(lambda b=before: world.encrypted.listener.connection_count > b[1])  # type: ignore[misc]
            else:
                await until(lambda b=before: world.plain.listener.connection_count > b[0])  # type: ignore[misc]
            writer.transport.abort()
            assert not await reader.read(1)
            await until(
                lambda: not world.plain.listener.connection_count
                and not world.encrypted.listener.connection_count
            )

    play(story, run)


@LOOPS
def test_who_says_nothing_is_closed_after_a_time_and_counts_at_no_listener(run: Run) -> None:
    async def story(world: SharedWorld) -> None:
        silent, _ = await world.connect()
        reader, writer = await world.connect()
        writer.write(framed(b"one"))
        assert await read(reader) == b"one"
        assert world.plain.listener.connection_count == 1
        world.now += MAX_LOGIN_S - 1
        world.shared.close_silent()
        writer.write(framed(b"still here"))
        assert await read(reader) == b"still here"
        assert not silent.at_eof()
        world.now += 2
        world.shared.close_silent()
        assert await closed(silent)
        writer.write(framed(b"and still"))
        assert await read(reader) == b"and still"

    play(story, run)


def test_of_too_many_who_say_nothing_the_oldest_gives_way() -> None:
    async def story(world: SharedWorld) -> None:
        oldest, _ = await world.connect()
        others = [await world.connect() for _ in range(MAX_UNKNOWN_CLIENTS)]
        assert await closed(oldest)
        reader, writer = others[-1]
        writer.write(framed(b"the newest"))
        assert await read(reader) == b"the newest"

    play(story, uvloop.run)


async def closed(reader: asyncio.StreamReader) -> bool:
    """Waits until its connection is."""
    try:
        return await asyncio.wait_for(reader.read(1), 10) == b""
    except ConnectionError:
        return True


@LOOPS
def test_once_one_of_the_two_has_stopped_nobody_is_accepted(run: Run) -> None:
    async def story(world: SharedWorld) -> None:
        silent, _ = await world.connect()
        reader, writer = await world.connect()
        writer.write(framed(b"early"))
        assert await read(reader) == b"early"
        await world.encrypted.listener.stop()
        assert await closed(silent)
        with pytest.raises(OSError, match="onnect"):
            await world.connect()
        writer.write(framed(b"an open one stays"))
        assert await read(reader) == b"an open one stays"

    play(story, run)


def test_a_taken_port_is_named() -> None:
    async def main() -> None:
        taken, world = SharedWorld(), SharedWorld()
        await taken.start()
        plain, encrypted = world.plain.listener, world.encrypted.listener
        await plain.start("127.0.0.1", taken.port)  # bound when both are ready
        with pytest.raises(ListenError, match=str(taken.port)):
            await encrypted.start("127.0.0.1", taken.port)
        await taken.stop()

    uvloop.run(main())
