"""One ordered connection to one peer for one purpose; reconnects by itself.

In: requests. Out: their answers, or `PeerError`. Core:
`bus.client.wire.connection.ClientConnection` (by `PeerConnection`). Never: retries of a request
(only its sender knows whether it may go twice), nor what it means.

The address is looked up again at every connect, so a peer that moved is found. Between two
connects passes a back-off of 50 ms to 1 s with jitter. A request that got no answer in time costs
the connection: later answers on it would wait behind the lost one.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, overload

from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.limits import MAX_PIPELINED, MAX_WAITING, ChannelLimits
from bus.client.wire.peer_connection import PeerConnection
from bus.client.wire.ports import Address, ChannelClock, Connector
from bus.client.wire.request_timeouts import RequestTimeouts
from bus.client.wire.sasl import LoginRefused, SaslLogin, renewal_of
from bus.protocol.wire import RequestMessage, ResponseT

__all__ = ["Address", "ChannelLimits", "Connector", "PeerChannel", "PeerError", "PeerErrorKind"]

MAX_DOUBLINGS = 10
"""Of the back-off between two connects."""


class PeerChannel:
    """Requests to one peer, one at a time (or MAX_PIPELINED with `pipelined`), in their order.

    Invariant: at most one `PeerConnection` is open or being opened; `_slots` requests may be sent
    now.
    """

    def __init__(
        self,
        network: Connector,
        clock: ChannelClock,
        address: Callable[[], Address | None],
        *,
        client_id: str,
        name: str,
        limits: ChannelLimits | None = None,
        pipelined: bool = False,
        login: SaslLogin | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._address = address
        self._client_id = client_id
        self.name = name
        self._limits = limits or ChannelLimits()
        self._login = login
        self._free_slots = MAX_PIPELINED if pipelined else 1
        self._queue: deque[asyncio.Future[None]] = deque()
        self._connection: PeerConnection | None = None
        self._connecting = False
        self._connect_waiters: list[asyncio.Future[None]] = []
        self._failures = 0
        self._not_before = 0.0
        self._renew_at_s = math.inf
        self._closed = False
        self._timeouts = RequestTimeouts(clock, self._timeout_error)
        self.on_lost: Callable[[], None] | None = None
        self.on_connected: Callable[[], None] | None = None

    @property
    def connected(self) -> bool:
        """Whether a connection stands now."""
        return self._connection is not None and self._connection.open

    @overload
    async def request(
        self,
        api_key: int,
        body: RequestMessage[ResponseT],
        *,
        timeout_ms: int,
        max_version: int | None = None,
    ) -> ResponseT: ...

    @overload
    async def request(
        self, api_key: int, body: object, *, timeout_ms: int, max_version: int | None = None
    ) -> Any: ...

    async def request(
        self, api_key: int, body: object, *, timeout_ms: int, max_version: int | None = None
    ) -> Any:
        """Send `body` in the newest version both ends know (not above `max_version`); its answer.

        Raises PeerError. The time-out counts from now: waiting, connecting and the answer.
        """
        return await self.request_versioned(
            api_key, lambda _: body, timeout_ms=timeout_ms, max_version=max_version
        )

    async def request_versioned(
        self,
        api_key: int,
        make_body: Callable[[int], object],
        *,
        timeout_ms: int,
        max_version: int | None = None,
    ) -> Any:
        """As `request`, with a body that depends on the negotiated version."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        if self._free_slots and not self._queue:
            self._free_slots -= 1
        else:
            await self._acquire_slot(deadline)
        try:
            link = self._connection
            if link is not None and not link.in_flight and self._is_due:
                self.disconnect()  # its session ends soon, and nothing is lost with it
                link = None
            if link is None or not link.open:
                link = await self._ensure_connected(deadline)
            answer = link.send(api_key, make_body, max_version)
            try:
                return await self._timeouts.wait(deadline, answer)
            except (PeerError, asyncio.CancelledError):
                # Its answer may still come and would be mistaken for the next one's.
                link.drop()
                raise
        finally:
            self._release_slot()

    @property
    def _is_due(self) -> bool:
        """Whether the session ends soon; a login takes another connection."""
        return self._clock.monotonic() >= self._renew_at_s

    def disconnect(self) -> None:
        """Drop the connection; requests on it fail with DISCONNECTED, later ones reconnect."""
        link, self._connection = self._connection, None
        if link is not None:
            link.drop()

    def close(self) -> None:
        """Close for good; waiting requests fail with DISCONNECTED."""
        self._closed = True
        self.disconnect()
        self._timeouts.close()

    # -- turns ----------------------------------------------------------------------

    async def _acquire_slot(self, deadline: float) -> None:
        if len(self._queue) >= MAX_WAITING:
            raise PeerError(PeerErrorKind.TIMED_OUT, f"{self.name}: too many requests wait")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await self._timeouts.wait(deadline, turn)
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            else:  # it was given to us between the time-out and now: pass it on
                self._release_slot()
            raise

    def _release_slot(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free_slots += 1

    # -- connecting -----------------------------------------------------------------

    async def _ensure_connected(self, deadline: float) -> PeerConnection:
        while not self._closed:
            if self._connection is not None and self._connection.open:
                return self._connection
            if not self._connecting:
                return await self._connect_for_all(deadline)
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._connect_waiters.append(waiter)
            await self._timeouts.wait(deadline, waiter)
        raise PeerError(PeerErrorKind.DISCONNECTED, f"{self.name} is closed")

    async def _connect_for_all(self, deadline: float) -> PeerConnection:
        self._connecting = True
        try:
            return await self._connect(deadline)
        finally:
            self._connecting = False
            waiters, self._connect_waiters = self._connect_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _connect(self, deadline: float) -> PeerConnection:
        wait_s = self._not_before - self._clock.monotonic()
        if wait_s > 0:
            if self._not_before >= deadline:
                await self._clock.sleep(max(deadline - self._clock.monotonic(), 0))
                raise PeerError(PeerErrorKind.TIMED_OUT, f"{self.name} cannot be reached")
            await self._clock.sleep(wait_s)
        setup = min(deadline, self._clock.monotonic() + self._limits.setup_timeout_ms / 1000)
        try:
            await self._prepare_login(setup)
            link = await self._open(setup)
        except PeerError as error:
            if error.kind is PeerErrorKind.NOT_LET_IN:
                self._failures = MAX_DOUBLINGS  # each try counts where accounts are locked
            self._back_off()
            raise
        self._failures = 0
        if self._closed:
            link.drop()
            raise PeerError(PeerErrorKind.DISCONNECTED, f"{self.name} is closed")
        self._connection = link
        self._renew_at_s = renewal_of(link.session_ms, self._clock.monotonic())
        if self.on_connected is not None:
            self.on_connected()
        return link

    async def _prepare_login(self, deadline: float) -> None:
        """A token that must be fetched first is fetched on a thread."""
        tokens = None if self._login is None else self._login.tokens
        if tokens is None or tokens.is_prepared:
            return
        prepared = asyncio.get_running_loop().run_in_executor(None, tokens.prepare)
        try:
            await self._timeouts.wait(deadline, prepared)
        except LoginRefused as error:
            raise PeerError(PeerErrorKind.NOT_LET_IN, error.detail) from None
        except OSError as error:
            raise PeerError(PeerErrorKind.DISCONNECTED, f"{self.name}: {error}") from None

    async def _open(self, deadline: float) -> PeerConnection:
        address = self._address()
        if address is None:
            raise PeerError(PeerErrorKind.DISCONNECTED, f"{self.name} has no known address")
        link = PeerConnection(self._client_id, self._on_connection_lost, self._login)
        dial = self._clock.spawn(self._dial(address, link), name=f"connect {self.name}")
        try:
            await self._timeouts.wait(deadline, link.handshake)
        except BaseException:
            dial.cancel()
            link.drop()
            raise
        return link

    async def _dial(self, address: Address, link: PeerConnection) -> None:
        try:
            if self._login is not None and self._login.is_slow:
                link.log_in_with(await asyncio.to_thread(self._login.prepared, address.host))
            await self._network.connect(address.host, address.port, lambda: link)
        except LoginRefused as error:
            link.fail(PeerError(PeerErrorKind.NOT_LET_IN, error.detail))
        except ConnectionRefusedError:
            link.fail(
                PeerError(PeerErrorKind.REFUSED, f"{self.name} at {address} refuses connections")
            )
        except (OSError, ValueError, OverflowError) as error:
            # The last two: a host name or port, of a registration or an answer, that cannot be one.
            link.fail(PeerError(PeerErrorKind.DISCONNECTED, f"{self.name} at {address}: {error}"))

    def _back_off(self) -> None:
        limits = self._limits
        doublings = min(self._failures, MAX_DOUBLINGS)
        wait_ms = min(limits.reconnect_backoff_max_ms, limits.reconnect_backoff_ms << doublings)
        self._failures += 1
        jitter = 0.8 + 0.4 * self._clock.random.random()
        self._not_before = self._clock.monotonic() + wait_ms * jitter / 1000

    def _on_connection_lost(self, link: PeerConnection) -> None:
        if self._connection is link:
            self._connection = None
        if not link.dropped_by_us and self.on_lost is not None:
            self.on_lost()

    def _timeout_error(self) -> PeerError:
        return PeerError(PeerErrorKind.TIMED_OUT, f"{self.name} did not answer in time")
