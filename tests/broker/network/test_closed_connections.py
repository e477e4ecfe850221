"""What a closed connection leaves behind: nothing for the garbage collector, whose pause all
connections share."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import pytest

from broker.network.connection import Connection
from broker.network.responses import ResponseSlot
from broker.security.security_protocol import SecurityProtocol
from tests.broker.network.test_listener import RUNS, ListenerWorld, Run, framed
from tests.broker.network.test_tls import MANY, ServerSide, answer, client, until

CONNECTIONS = 3
ENDS = {"answered": b"l", "refused": b"x", "unanswered": b"w", "muted": b"t"}
"""How a connection may end, and what its client says before it."""


class ClosedWorld(ListenerWorld):
    """Knows every connection that is still in memory."""

    def __init__(self, protocol: SecurityProtocol) -> None:
        super().__init__(MANY, protocol, ServerSide() if protocol.has_tls else None)
        self.in_memory: WeakSet[Connection] = WeakSet()
        self.client = client() if protocol.has_tls else None

    def dispatch(self, frame: memoryview, connection: Connection, slot: ResponseSlot) -> None:
        self.in_memory.add(connection)
        super().dispatch(frame, connection, slot)

    async def talk(self, words: bytes, tls: ssl.SSLContext | None) -> None:
        """A client that says this and goes, once it is answered or closed."""
        before = self.seen
        reader, writer = await self.connect(tls)
        writer.write(framed(words))
        await until("the request has arrived", lambda: self.seen > before)
        if words.startswith(b"x"):
            assert await reader.read() == b""
        elif words != b"w":
            assert await answer(reader) == words
        writer.close()


@contextmanager
def without_collector() -> Iterator[None]:
    """Whatever is left then is left to it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left_behind(protocol: SecurityProtocol, run: Run) -> dict[str, int]:
    """How many of the connections on which each was said are in memory after their end."""
    found: dict[str, int] = {}

    async def story() -> None:
        world = ClosedWorld(protocol)
        world.mute_ms = 1000
        world.port = await world.listener.start("127.0.0.1", 0)
        try:
            for end, words in ENDS.items():
                for _ in range(CONNECTIONS):
                    await world.talk(words, world.client)
                await until("all are closed", lambda: not world.listener.connection_count)
                for slot, body in world.waiting:  # what they waited for comes when they are gone
                    slot.set([framed(body)])
                world.waiting.clear()
                world.pass_time(2.0)
                await asyncio.sleep(0)
                found[end] = len(world.in_memory)
        finally:
            await world.listener.stop()

    with without_collector():
        run(story())
    return found


@RUNS
@pytest.mark.parametrize("protocol", list(SecurityProtocol))
def test_a_closed_connection_is_freed_at_once(protocol: SecurityProtocol, run: Run) -> None:
    """Thousands of log-ins a second would fill the collector's young generation every second."""
    assert left_behind(protocol, run) == dict.fromkeys(ENDS, 0)
