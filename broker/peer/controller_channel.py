"""The channel from this process to the active controller; follows it through elections.

In: requests. Out: the active controller's answers, or `PeerError` when the time is over.
Never: what a request means, nor a queue: one caller, one request, its own time-out.

The control plane says who the active controller is (`leader`): Raft's leader, or the holder of
`/controller`. If it is this process, the request is handed to its own dispatcher (`local`), no
socket between. A controller that answers NOT_CONTROLLER, hangs up, or ceases to be the leader
while a request waits, costs one attempt; a node that is cut off from the others must notice that
another node leads now, and a request must not hang on the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from broker.clock.port import Clock
from bus.client.wire.channel import Address, ChannelLimits, Connector, PeerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.sasl import SaslLogin
from bus.errors import ErrorCode

RETRY_BACKOFF_MS = 50
"""Between two attempts; an election takes some hundred milliseconds."""

NO_CONTROLLER = -1

_WRONG_CONTROLLER = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)

LocalCall = Callable[[int, object], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class ControllerLocator:
    """What the plane knows of controllers.

    `leader` is the active one's node id or NO_CONTROLLER, `address` where a controller listens,
    `local` handles a request in this process.
    """

    node_id: int
    leader: Callable[[], int]
    address: Callable[[int], Address | None]
    local: LocalCall


class ControllerChannel:
    """One purpose's way to the active controller. Links of one process share their
    `ControllerLocator`.

    Invariant: at most one channel, to the controller asked last.
    """

    def __init__(
        self,
        network: Connector,
        clock: Clock,
        route: ControllerLocator,
        *,
        name: str,
        pipelined: bool = False,
        limits: ChannelLimits | None = None,
        login: SaslLogin | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._locator = route
        self._name = name
        self._pipelined = pipelined
        self._limits = limits
        self._login = login
        self._channel: PeerChannel | None = None
        self._channel_to = NO_CONTROLLER
        self._closed = False
        self._waiters: list[asyncio.Future[None]] = []

    async def request(
        self, api_key: int, body: object, *, timeout_ms: int, retry: bool = True
    ) -> Any:
        """The active controller's answer to `body`. Raises PeerError: at the first failure
        without `retry`, else when the time is over."""
        return await self.request_versioned(
            api_key, lambda _: body, timeout_ms=timeout_ms, retry=retry
        )

    async def request_versioned(
        self,
        api_key: int,
        make_body: Callable[[int | None], object],
        *,
        timeout_ms: int,
        retry: bool = True,
    ) -> object:
        """As `request`; the body depends on the version, None when no wire is between."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        while True:
            left_ms = int((deadline - self._clock.monotonic()) * 1000)
            try:
                answer = await self._attempt(api_key, make_body, max(left_ms, 1))
            except PeerError as error:
                left_s = deadline - self._clock.monotonic()
                if not retry or self._closed or left_s <= 0 or _is_final(error):
                    raise
                await self._pause(min(left_s, RETRY_BACKOFF_MS / 1000))
            else:
                if not retry or getattr(answer, "error_code", 0) not in _WRONG_CONTROLLER:
                    return answer
                left_s = deadline - self._clock.monotonic()
                if left_s <= 0:
                    return answer
                await self._pause(min(left_s, RETRY_BACKOFF_MS / 1000))

    def leader_changed(self) -> None:
        """The plane knows another active controller, or none: attempts at the old one end."""
        if self._channel is not None and self._channel_to != self._locator.leader():
            self._close_channel()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """For good."""
        self._closed = True
        self.leader_changed()
        self._close_channel()

    async def _attempt(
        self, api_key: int, make_body: Callable[[int | None], object], timeout_ms: int
    ) -> object:
        leader = self._locator.leader()
        if self._closed:
            raise PeerError(PeerErrorKind.DISCONNECTED, f"{self._name} is closed")
        if leader == NO_CONTROLLER:
            raise PeerError(PeerErrorKind.DISCONNECTED, f"{self._name}: no controller is known")
        if leader == self._locator.node_id:
            return await self._within(timeout_ms, self._locator.local(api_key, make_body(None)))
        channel = self._channel_for(leader)
        return await channel.request_versioned(api_key, make_body, timeout_ms=timeout_ms)

    def _channel_for(self, leader: int) -> PeerChannel:
        if self._channel is None or self._channel_to != leader:
            self._close_channel()
            self._channel = PeerChannel(
                self._network,
                self._clock,
                lambda: self._locator.address(leader),
                client_id=f"broker-{self._locator.node_id}-{self._name}",
                name=f"controller {leader} ({self._name})",
                limits=self._limits,
                pipelined=self._pipelined,
                login=self._login,
            )
            self._channel_to = leader
        return self._channel

    def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        self._channel_to = NO_CONTROLLER
        if channel is not None:
            channel.close()

    async def _pause(self, seconds: float) -> None:
        """The back-off, cut short when another leader is known."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        timer = self._clock.call_later(seconds, lambda: _wake(waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _within(self, timeout_ms: int, call: Awaitable[Any]) -> Any:
        task = asyncio.ensure_future(call)
        expired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(timeout_ms / 1000, lambda: _wake(expired))
        try:
            await asyncio.wait({task, expired}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise PeerError(
                PeerErrorKind.TIMED_OUT, f"{self._name}: no commit within {timeout_ms} ms"
            )
        finally:
            timer.cancel()
            task.cancel()


def _is_final(error: PeerError) -> bool:
    """A controller that does not know the API will not learn it while we wait."""
    return error.kind is PeerErrorKind.UNSUPPORTED_VERSION


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
