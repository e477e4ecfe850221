"""A listener of the broker: admits connections, closes idle ones, stops them all.

Calls `dispatch(frame, connection, slot)`, which sets the slot now or later. Never: what a request
means. Kafka's counterpart is the SocketServer (broker.md 6); its threads are one event loop here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from broker.clock.port import TimerHandle
from broker.metrics.registry import Meter
from broker.network.arrivals import Arrivals, CreationBounds
from broker.network.client_log import ClientLog
from broker.network.connection import Connection
from broker.network.frames import FrameDecoder
from broker.network.limits import (
    MAX_LOGIN_S,
    MAX_REFUSED_CONNECTIONS,
    MAX_UNKNOWN_CLIENTS,
    READ_BUFFER_BYTES,
    REFUSED_MUTE_MS,
    RESPONSE_MEMORY_BYTES,
    STALLED_S,
    ConnectionLimits,
)
from broker.network.listener_tls import ListenerTls, TlsServer
from broker.network.memory import BrokerMemory, ResponseMemory
from broker.network.memory_pool import MemoryPool
from broker.network.port import Network, Server, SocketBuffers
from broker.network.responses import ResponseSlot
from broker.network.turns import Turns
from broker.quotas.connection_rates import ConnectionRates
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import Session

CallLater = Callable[[float, Callable[[], None]], TimerHandle]
Dispatch = Callable[[memoryview, Connection, ResponseSlot], None]


class SharedResources:
    """Resources of all listeners of one process, which one loop and one memory serve."""

    def __init__(self, monotonic: Callable[[], float], call_later: CallLater) -> None:
        self.turns = Turns(monotonic, partial(call_later, 0))
        self.client_memory = ResponseMemory(RESPONSE_MEMORY_BYTES)
        self.broker_memory = BrokerMemory()
        self.client_log = ClientLog(monotonic)


class Listener:
    """One address and all its connections.

    Invariant: `_unknown` has those whose clients have yet to finish their handshake of TLS or to
    log in, the oldest first; without TLS and SASL there are none. `_refused` are muted and soon
    closed, and count nowhere else.
    """

    def __init__(
        self,
        network: Network,
        limits: Callable[[], ConnectionLimits],
        dispatch: Dispatch,
        monotonic: Callable[[], float],
        call_later: CallLater,
        on_closed: Callable[[Connection], None] | None = None,
        shared: SharedResources | None = None,
        *,
        name: str = "PLAINTEXT",
        protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        is_for_brokers: bool = False,
        connection_rates: ConnectionRates | None = None,
        creation_bounds: CreationBounds | None = None,
        tls: TlsServer | None = None,
        handshakes: tuple[Meter, Meter] | None = None,
    ) -> None:
        """`name` and `protocol` are what sessions begin with. `is_for_brokers`: only brokers and
        controllers connect here, so their requests wait for no client's turn, and their responses
        are counted apart. Without `connection_rates` addresses connect as often as they like.
        Without `creation_bounds` all together do.
        `handshakes` counts those of TLS that succeeded and that failed."""
        shared = shared or SharedResources(monotonic, call_later)
        self._name, self._protocol = name, protocol
        self.turns = shared.turns
        self.service_class = self.turns.brokers if is_for_brokers else self.turns.clients
        self.first_class = self.service_class
        if tls is not None or protocol.has_sasl:
            turns = self.turns
            self.first_class = turns.unknown_brokers if is_for_brokers else turns.unknown_clients
        self.broker_memory = shared.broker_memory
        self.memory = shared.client_memory
        if is_for_brokers:
            self.memory = ResponseMemory(RESPONSE_MEMORY_BYTES)
        self._client_log = shared.client_log
        self._network = network
        self._limits = limits
        self.dispatch = dispatch
        self.monotonic = monotonic
        self.call_later = call_later
        self.memory_pool = MemoryPool(limits().receive_memory_bytes)
        self._shared = memoryview(bytearray(READ_BUFFER_BYTES))
        self._connections: dict[Connection, None] = {}
        self._unknown: dict[Connection, None] = {}
        self._refused: dict[Connection, None] = {}
        self._connection_rates = connection_rates
        self._on_closed = on_closed
        self.is_open = True
        self._per_ip: Counter[str] = Counter()
        self._to_flush: list[Connection] = []
        self._in_batch = False
        self._server: Server | None = None
        self._tls: ListenerTls | None = None
        if tls is not None:
            self._tls = ListenerTls(tls, self, *(handshakes or (Meter(), Meter())))
        self._arrivals: Arrivals | None = None
        self._creation_bounds = creation_bounds
        if creation_bounds is not None:
            self._arrivals = Arrivals(
                lambda: creation_bounds.wait_ms(name, self._now_ms()), self._new_protocol,
                call_later, lambda text: self.log_client("listener %s: %s", name, text),
            )  # fmt: skip

    async def start(
        self, host: str, port: int, *, held: bool = False, buffers: SocketBuffers | None = None
    ) -> int:
        """Bind; the port in use. `held`: connections are accepted, but not read before `open`."""
        self.is_open = not held
        self._server = await self._network.listen(host, port, self._accepted, buffers)
        return self._server.port

    def open(self) -> None:
        """Serve from now on, the oldest connections first."""
        self.is_open = True
        for connection in list(self._connections):
            connection.pump()

    async def stop(self) -> None:
        """Stop accepting, and close every connection after its written responses."""
        if self._server is not None:
            await self._server.close()
        if self._arrivals is not None:
            self._arrivals.stop()
        for connection in [*self._connections, *self._refused]:
            connection.close()

    @property
    def connections(self) -> Iterable[Connection]:
        """Those that are open."""
        return self._connections

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._connections)

    def close_idle(self) -> int:
        """Close connections silent for longer than the limit; how many were.

        A connection whose request waits (a long fetch, a join) is not idle, nor is a muted one.
        """
        oldest = self.monotonic() - self._limits().max_idle_ms / 1000
        idle = [
            c
            for c in self._connections
            if c.last_active < oldest and not c.in_flight and not c.is_muted
        ]
        for connection in idle:
            connection.abort("idle")
        return len(idle)

    def close_stalled(self) -> int:
        """If a connection waits for memory, close those whose partial frames keep it and do not
        grow."""
        if not self.memory_pool.is_short:
            return 0
        oldest = self.monotonic() - STALLED_S
        stalled = [c for c in self._connections if c.last_active < oldest and c.holds_memory]
        for connection in stalled:
            connection.abort("its half request kept memory that others need")
        return len(stalled)

    def close_unread(self) -> int:
        """If responses hold more than their limit, close connections whose clients have read
        nothing for a while: otherwise only the number of connections would bound the memory."""
        if not self.memory.is_short:
            return 0
        oldest = self.monotonic() - STALLED_S
        unread = [c for c in self._connections if c.is_unread_since(oldest)]
        for connection in unread:
            connection.abort("its answers are not read and their memory is needed")
        return len(unread)

    def close_unknown(self) -> int:
        """Close connections whose clients took too long until they were known; how many were."""
        oldest = self.monotonic() - MAX_LOGIN_S
        late = [one for one in self._unknown if one.opened_at < oldest]
        awaited = "log in" if self._protocol.has_sasl else "finish its handshake of TLS"
        for connection in late:
            connection.abort(f"its client did not {awaited}")
        return len(late)

    def _accepted(self) -> asyncio.BaseProtocol:
        return self._new_protocol() if self._arrivals is None else self._arrivals.accept()

    def _new_protocol(self) -> asyncio.BufferedProtocol:
        connection = Connection(self)
        return connection if self._tls is None else self._tls.wrap(connection)

    def _now_ms(self) -> int:
        return int(self.monotonic() * 1000)

    # -- the connections' side ------------------------------------------------------

    def new_decoder(self) -> FrameDecoder:
        """The receiving side of a new connection."""
        limits = self._limits()
        most = limits.max_request_bytes
        if self._protocol.has_sasl:
            most = min(most, limits.max_unknown_request_bytes)
        return FrameDecoder(self._shared, self.memory_pool, most)

    def new_session(self, host: str) -> Session:
        """What is known of the client that connects from this address."""
        return Session(host, self._name, self._protocol)

    def admit(self, connection: Connection) -> bool:
        """Count the connection, unless it exceeds the limits."""
        limits = self._limits()
        if len(self._connections) >= limits.max_connections:
            self._client_log.warning("refusing %s: max.connections reached", connection.host)
            return False
        if self._is_throttled(connection):
            return False
        most = limits.max_connections_by_ip.get(connection.host, limits.max_connections_per_ip)
        if self._per_ip[connection.host] >= most:
            self._client_log.warning("refusing %s: max.connections.per.ip reached", connection.host)
            return False
        self._connections[connection] = None
        self._per_ip[connection.host] += 1
        if self._protocol.has_sasl or self._tls is not None:
            self._unknown[connection] = None
            if len(self._unknown) > MAX_UNKNOWN_CLIENTS:
                oldest = next(iter(self._unknown))
                del self._unknown[oldest]
                oldest.abort("too many clients have not logged in")
        return True

    def _is_throttled(self, connection: Connection) -> bool:
        """Whether its address connects too often. It is muted then until it is closed, so that its
        client does not connect again at once; with TLS it is closed now, as handshakes cost."""
        rates = self._connection_rates
        if rates is None:
            return False
        wait_ms = rates.wait_ms(connection.host, self._now_ms())
        if not wait_ms:
            return False
        if self._creation_bounds is not None:
            self._creation_bounds.take_back(self._name, self._now_ms())
        self._client_log.warning("refusing %s: it connects too often", connection.host)
        if self._tls is None and len(self._refused) < MAX_REFUSED_CONNECTIONS:
            self._refused[connection] = None
            connection.mute(wait_ms + REFUSED_MUTE_MS)
            self.call_later(wait_ms / 1000, connection.close)
        return True

    def refuse(self, connection: Connection) -> None:
        """Close a connection that is not admitted; soon, if its address is to wait."""
        if connection not in self._refused:
            connection.close()

    def authenticated(self, connection: Connection) -> int:
        """The client is known; how large its requests may be now."""
        self._unknown.pop(connection, None)
        return self._limits().max_request_bytes

    def remove(self, connection: Connection) -> None:
        """The connection is gone."""
        self._refused.pop(connection, None)
        if connection in self._connections:
            del self._connections[connection]
            self._unknown.pop(connection, None)
            self.broker_memory.release(connection.memory_account)
            self._per_ip[connection.host] -= 1
            if not self._per_ip[connection.host]:
                del self._per_ip[connection.host]
            if self._on_closed is not None:
                self._on_closed(connection)

    def log_client(self, text: str, *words: object) -> None:
        """Log a line about a client, at a limited rate."""
        self._client_log.info(text, *words)

    def log_failure(self, host: str) -> None:
        """Log the exception that a client's request raised, with its trace."""
        self._client_log.exception("request from %s failed", host)

    def begin_batch(self) -> None:
        """A connection starts to process received requests."""
        self._in_batch = True

    def end_batch(self) -> None:
        """Send what became ready on other connections meanwhile."""
        self._in_batch = False
        self._flush()

    def schedule_flush(self, connection: Connection) -> None:
        """Another connection's event made a response of `connection` ready.

        It is sent after that event's work: at the end of the current turn, or, outside of any turn
        (a timer), at the next iteration of the event loop, together with all others.
        """
        self._to_flush.append(connection)
        if not self._in_batch and len(self._to_flush) == 1:
            self.call_later(0, self._flush)

    def _flush(self) -> None:
        while self._to_flush:
            woken, self._to_flush = self._to_flush, []
            for connection in woken:
                connection.pump()
