"""Connections of one listener in the order in which they came, taken no faster than they may be.

In: connections that the system has accepted. Out: each with its protocol, at its time; the first
bytes of its client with it. Never: a read for a connection that waits beyond `SMALL_READ_BYTES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from broker.clock.port import TimerHandle
from broker.network.limits import MAX_ARRIVALS, SMALL_READ_BYTES


class CreationBounds(Protocol):
    """How often listeners may take connections."""

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """A connection has come; how long it waits until it is taken."""

    def take_back(self, listener: str, now_ms: int) -> None:
        """A connection that counted is refused, because of its address."""


MakeProtocol = Callable[[], asyncio.BufferedProtocol]


class Arrivals:
    """Invariant: `_timer` runs while a connection waits. It is the first one's time; of those
    behind it nothing is counted yet, as if they were not accepted."""

    def __init__(
        self,
        wait_ms: Callable[[], int],
        make: MakeProtocol,
        call_later: Callable[[float, Callable[[], None]], TimerHandle],
        log_client: Callable[[str], None],
    ) -> None:
        """`wait_ms()`: a connection counts; how long it waits. `make()`: what serves one."""
        self._wait_ms, self._make = wait_ms, make
        self._call_later, self._log_client = call_later, log_client
        self._waiting: dict[Arrival, None] = {}
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def accept(self) -> asyncio.BaseProtocol:
        """What the loop is given for a new connection."""
        if self._timer is None:
            wait_ms = self._wait_ms()
            if not wait_ms:
                return self._make()
            self._timer = self._call_later(wait_ms / 1000, self._take_first)
            self._log_client("new connections have to wait: there are more than may be in a second")
        arrival = Arrival(self)
        if len(self._waiting) < MAX_ARRIVALS:
            self._waiting[arrival] = None
        return arrival

    def stop(self) -> None:
        """Close those that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for arrival in waiting:
            arrival.close()

    def has_place(self, arrival: Arrival) -> bool:
        """Whether the connection waits; where too many do, the newest is closed."""
        if arrival in self._waiting:
            return True
        self._log_client("closing a connection: too many wait until they are taken")
        return False

    def remove(self, arrival: Arrival) -> None:
        """Its client has gone."""
        self._waiting.pop(arrival, None)

    def _take_first(self) -> None:
        """One for each event of the loop, however many may be taken now."""
        self._timer = None
        first = next(iter(self._waiting), None)
        if first is not None:
            del self._waiting[first]
            first.pass_on(self._make())
        if self._waiting:
            self._timer = self._call_later(self._wait_ms() / 1000, self._take_first)


class Arrival(asyncio.BufferedProtocol):
    """A connection that waits until it is taken. Its client's end is noticed, unless it has sent as
    much as is read."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait, or be closed at once."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._arrivals.has_place(self):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """What is left of the one read."""
        if not self._buffer:
            self._buffer = bytearray(SMALL_READ_BYTES)
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        """Keep it; let the client wait with the rest."""
        self._received += nbytes
        if self._received == SMALL_READ_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The client has given up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It waits no more."""
        self._transport = None
        self._arrivals.remove(self)

    def close(self) -> None:
        """Before it was taken."""
        if self._transport is not None:
            self._transport.abort()

    def pass_on(self, protocol: asyncio.BufferedProtocol) -> None:
        """From now on it is the protocol's, with what was received."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._transport = None
        if self._received == SMALL_READ_BYTES:
            transport.resume_reading()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._received and not transport.is_closing():
            lent = memoryview(protocol.get_buffer(self._received))
            lent[: self._received] = self._buffer[: self._received]
            protocol.buffer_updated(self._received)
