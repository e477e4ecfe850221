"""What a channel needs of its surroundings: to open a connection, and a clock.

In: an address and a protocol factory. Out: a transport. Never: listening. The broker's network and
clock ports are this and more; an application gives asyncio's loop and `time`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from bus.errors import BusError, ErrorCode


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connector(Protocol):
    """Opens connections."""

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection. Raises `OSError`."""


class Cancellable(Protocol):
    """A timer or a task; cancelling twice or after its end does nothing."""

    def cancel(self) -> object: ...


class JitterSource(Protocol):
    """The part of `random.Random` that a back-off uses."""

    def random(self) -> float: ...


class ChannelClock(Protocol):
    """Time, timers, tasks and jitter of a channel."""

    @property
    def random(self) -> JitterSource:
        """The source of jitter; a seed makes a run repeatable."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up other tasks."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> Cancellable:
        """Run a coroutine beside the caller."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Cancellable:
        """Call `callback` once after `delay_s` seconds, on the same thread."""


def addresses(bootstrap_servers: str) -> list[Address]:
    """`host:port,host:port`, also with [IPv6]. Raises BusError for what is no address."""
    found = []
    for word in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        host, colon, port = word.rpartition(":")
        if not colon or not port.isdecimal():
            raise BusError(ErrorCode.INVALID_REQUEST, f"{word!r} is not host:port")
        found.append(Address(host.strip("[]"), int(port)))
    return found
