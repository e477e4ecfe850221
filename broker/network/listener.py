"""The broker's listening side: admits connections, closes idle ones, stops them all.

Out to the dispatcher: `dispatch(frame, connection, slot)`, which fills the slot now or later.
Never: what a request means. Kafka's counterpart is the SocketServer (broker.md 6); its threads
are one event loop here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.network.budget import ReceiveBudget
from broker.network.complaints import Complaints
from broker.network.connection import Connection
from broker.network.frames import FrameCutter
from broker.network.limits import (
    READ_BUFFER_BYTES,
    RESPONSE_MEMORY_BYTES,
    STALLED_S,
    ConnectionLimits,
)
from broker.network.memory import MemoryOfBrokers, ResponseMemory
from broker.network.port import Network, Server
from broker.network.responses import Slot
from broker.network.turns import Turns

Dispatch = Callable[[memoryview, Connection, Slot], None]


class Shared:
    """What all listeners of one process share, because one loop and one memory serve them."""

    def __init__(
        self, monotonic: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.turns = Turns(monotonic, soon)
        self.client_memory = ResponseMemory(RESPONSE_MEMORY_BYTES)
        self.memory_of_brokers = MemoryOfBrokers()
        self.complaints = Complaints(monotonic)


class Listener:
    """One address and all its connections."""

    def __init__(
        self,
        network: Network,
        limits: Callable[[], ConnectionLimits],
        dispatch: Dispatch,
        monotonic: Callable[[], float],
        soon: Callable[[Callable[[], None]], object],
        on_closed: Callable[[Connection], None] | None = None,
        shared: Shared | None = None,
        *,
        is_for_brokers: bool = False,
    ) -> None:
        """`is_for_brokers`: only brokers and controllers come here, so that their requests wait for
        no client's turn, and what they hold is counted apart."""
        shared = shared or Shared(monotonic, soon)
        self.turns = shared.turns
        self.service_class = self.turns.brokers if is_for_brokers else self.turns.clients
        self.memory_of_brokers = shared.memory_of_brokers
        self.memory = shared.client_memory
        if is_for_brokers:
            self.memory = ResponseMemory(RESPONSE_MEMORY_BYTES)
        self._complaints = shared.complaints
        self._network = network
        self._limits = limits
        self.dispatch = dispatch
        self.monotonic = monotonic
        self._soon = soon
        self.budget = ReceiveBudget(limits().receive_budget_bytes)
        self._shared = memoryview(bytearray(READ_BUFFER_BYTES))
        self._connections: dict[Connection, None] = {}
        self._on_closed = on_closed
        self.is_open = True
        self._per_ip: Counter[str] = Counter()
        self._woken: list[Connection] = []
        self._turn = False
        self._server: Server | None = None

    async def start(self, host: str, port: int, *, held: bool = False) -> int:
        """Bind; the port in use. `held`: connections stand, but nothing is read before `open`."""
        self.is_open = not held
        self._server = await self._network.listen(host, port, lambda: Connection(self))
        return self._server.port

    def open(self) -> None:
        """Answer from now on, those first who came first."""
        self.is_open = True
        for connection in list(self._connections):
            connection.pump()

    async def stop(self) -> None:
        """Accept no more and close every connection after its written responses."""
        if self._server is not None:
            await self._server.close()
        for connection in list(self._connections):
            connection.close()

    @property
    def connection_count(self) -> int:
        """Connections that stand."""
        return len(self._connections)

    def close_idle(self) -> int:
        """Close connections silent for longer than the limit; how many were.

        A connection whose request waits (a long fetch, a join) is not idle.
        """
        oldest = self.monotonic() - self._limits().max_idle_ms / 1000
        idle = [c for c in self._connections if c.last_active < oldest and not c.in_flight]
        for connection in idle:
            connection.abort("idle")
        return len(idle)

    def close_stalled(self) -> int:
        """If anybody waits for memory, close those whose half frames keep it and do not grow."""
        if not self.budget.is_short:
            return 0
        oldest = self.monotonic() - STALLED_S
        stalled = [c for c in self._connections if c.last_active < oldest and c.holds_budget]
        for connection in stalled:
            connection.abort("its half request kept memory that others need")
        return len(stalled)

    def close_unread(self) -> int:
        """If answers hold more than they may, each connection one, close those whose clients have
        read nothing for a while: how many they are is all that bounds them else."""
        if not self.memory.is_short:
            return 0
        oldest = self.monotonic() - STALLED_S
        unread = [c for c in self._connections if c.is_unread_since(oldest)]
        for connection in unread:
            connection.abort("its answers are not read and their memory is needed")
        return len(unread)

    # -- the connections' side ------------------------------------------------------

    def new_cutter(self) -> FrameCutter:
        """The receiving side of a new connection."""
        return FrameCutter(self._shared, self.budget, self._limits().max_request_bytes)

    def admit(self, connection: Connection) -> bool:
        """Count the connection, unless it is one too many."""
        limits = self._limits()
        if len(self._connections) >= limits.max_connections:
            self._complaints.warn("refusing %s: max.connections reached", connection.host)
            return False
        most = limits.of_address.get(connection.host, limits.max_connections_per_ip)
        if self._per_ip[connection.host] >= most:
            self._complaints.warn("refusing %s: max.connections.per.ip reached", connection.host)
            return False
        self._connections[connection] = None
        self._per_ip[connection.host] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is gone."""
        if connection in self._connections:
            del self._connections[connection]
            self.memory_of_brokers.forget(connection.holder)
            self._per_ip[connection.host] -= 1
            if not self._per_ip[connection.host]:
                del self._per_ip[connection.host]
            if self._on_closed is not None:
                self._on_closed(connection)

    def complain(self, text: str, *words: object) -> None:
        """A line about a client, unless there are many."""
        self._complaints.inform(text, *words)

    def complain_of_failure(self, host: str) -> None:
        """What a client's request raised, with its trace."""
        self._complaints.failed("request from %s failed", host)

    def begin_turn(self) -> None:
        """A connection starts to work on what it received."""
        self._turn = True

    def end_turn(self) -> None:
        """Send what that work has made ready on other connections too."""
        self._turn = False
        self._flush()

    def wake(self, connection: Connection) -> None:
        """A waiting response of `connection` was filled by somebody else's event.

        It is sent when that event's work is over: with the turn that runs, or, outside of any
        turn (a timer), at the next pass of the event loop, once for all.
        """
        self._woken.append(connection)
        if not self._turn and len(self._woken) == 1:
            self._soon(self._flush)

    def _flush(self) -> None:
        while self._woken:
            woken, self._woken = self._woken, []
            for connection in woken:
                connection.pump()
