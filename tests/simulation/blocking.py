"""Blocking code of the product in a world: its threads, sockets and clock, on the virtual loop.

In: functions that connect, send, receive and sleep as `SyncClient` and a switch do. Out: their
results, in virtual time and in an order that only the seed decides. Each call of a thread runs as a
greenlet, which gives the loop what it waits for. Never: a thread, a real socket, real time.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from tests.simulation.clock import EPOCH_MS, SimClock
from tests.simulation.loop import START_S, VirtualLoop
from tests.simulation.network import ProcessNetwork

WITH_A_CLOCK = ("bus.client.", "bus.runtime.wall_clock", "dr_mirror.", "ingest.edge.", "ingest.spool.")
"""Modules that ask `time` themselves."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a process has of its machine."""

    clock: SimClock
    network: ProcessNetwork


PORTS: contextvars.ContextVar[Ports] = contextvars.ContextVar("ports")


def begin(loop: VirtualLoop, work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Runs blocking code beside the caller, who may give up waiting; the code goes on then."""
    done = loop.create_future()
    loop.create_task(_run(work, done), name="blocking code")
    return done


async def _run(work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
    worker = greenlet(work)
    try:
        wanted = worker.switch()
        while not worker.dead:
            try:
                got = await wanted
            except Exception as error:
                wanted = worker.throw(error)
            else:
                wanted = worker.switch(got)
    except Exception as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(wanted)


def wait_for(awaitable: Awaitable[Any]) -> Any:
    """Called by blocking code: what it waits for."""
    loop_side = getcurrent().parent
    assert loop_side is not None, "blocking code runs outside a thread of the world"
    return loop_side.switch(awaitable)


class VirtualTime:
    """`time` of the standard library, as far as the product asks it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def time_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + int((self._loop.time() - START_S) * 1e9)

    def sleep(self, seconds: float) -> None:
        wait_for(asyncio.sleep(seconds))


class SimSocket(asyncio.Protocol):
    """One end of a connection, as blocking code sees it."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._transport: Any = None
        self._inbox = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._moved = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._inbox += data
        self._moved.set()

    def eof_received(self) -> bool:
        self._ended = True
        self._moved.set()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._moved.set()

    def setsockopt(self, *_: object) -> None:
        """There is nothing to choose."""

    def settimeout(self, seconds: float | None) -> None:
        self._timeout_s = seconds

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended:
            raise self._error or BrokenPipeError(32, "the peer has closed")
        self._transport.write(data)

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        wait_for(self._readable())
        if not self._inbox and self._error is not None:
            raise self._error
        count = min(len(self._inbox), len(buffer))
        buffer[:count] = self._inbox[:count]
        del self._inbox[:count]
        return count

    async def _readable(self) -> None:
        async with asyncio.timeout(self._timeout_s):
            while not self._inbox and not self._ended:
                self._moved.clear()
                await self._moved.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class SimSocketModule:
    """`socket` of the standard library, as far as `SyncConnection` uses it."""

    IPPROTO_TCP, TCP_NODELAY = socket.IPPROTO_TCP, socket.TCP_NODELAY

    @staticmethod
    def create_connection(address: tuple[str, int], timeout: float | None = None) -> SimSocket:
        return wait_for(_connected(address, timeout))


async def _connected(address: tuple[str, int], timeout_s: float | None) -> SimSocket:
    made = SimSocket(timeout_s)
    async with asyncio.timeout(timeout_s):
        await PORTS.get().network.connect(*address, lambda: made)
    return made


class LoopOfAnotherThread:
    """`asyncio` for blocking code that runs a loop of its own for a while."""

    gather = staticmethod(asyncio.gather)

    @staticmethod
    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Step by step in the thread itself, so that it may block between two of its waits."""
        while True:
            try:
                wanted = coroutine.send(None)
            except StopIteration as end:
                return end.value
            if wanted is None:
                wait_for(asyncio.sleep(0))
            else:
                wanted._asyncio_future_blocking = False
                wait_for(asyncio.wait([wanted]))


@contextmanager
def surroundings(loop: VirtualLoop) -> Iterator[None]:
    """Gives the mirror's modules the world's time, sockets and ports."""
    from bus.client.wire import sync_client
    from dr_mirror.copy import cluster_channels
    from dr_mirror.proof import verify
    from dr_mirror.service import mirror, site_confirmer
    from dr_mirror.switch import cli, rejoin

    virtual = VirtualTime(loop)
    with ExitStack() as patches:
        for module in _modules_with_a_clock():
            patches.enter_context(patch.object(module, "time", virtual))
        patches.enter_context(patch.object(sync_client, "socket", SimSocketModule))
        for module in (mirror, verify):
            patches.enter_context(patch.object(module, "LoopClock", lambda: PORTS.get().clock))
        connector = patch.object(cluster_channels, "LoopConnector", lambda *_: PORTS.get().network)
        patches.enter_context(connector)
        patches.enter_context(patch.object(rejoin, "asyncio", LoopOfAnotherThread))
        for module in (site_confirmer, cli):
            patches.enter_context(patch.object(module, "own_name", lambda: "somebody@world"))
        yield


def _modules_with_a_clock() -> list[ModuleType]:
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(WITH_A_CLOCK) and getattr(module, "time", None) is time
    ]
