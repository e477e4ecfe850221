"""The channel finds the active controller on any node and never hangs on a former one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.network.real import RealNetwork
from broker.peer.controller_channel import NO_CONTROLLER, ControllerChannel, ControllerLocator
from bus.client.wire.channel import Address, ChannelLimits, PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_request, encode_response
from bus.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from bus.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)

LONG_MS = 60_000
QUICK = ChannelLimits(setup_timeout_ms=60_000, reconnect_backoff_ms=1, reconnect_backoff_max_ms=5)
MakeResponse = Callable[[], BrokerHeartbeatResponse | None]


class FakeController(asyncio.Protocol):
    """A controller's listener: answers ApiVersions, and heartbeats as `answer` says (None: never)."""

    def __init__(self, answer: MakeResponse, asked: list[int], node_id: int) -> None:
        self._answer = answer
        self._asked = asked
        self._node_id = node_id
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "big")
            if len(self._data) < 4 + size:
                return
            frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
            self._request(frame)

    def _request(self, frame: bytes) -> None:
        header, _ = decode_request(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=key, min_version=0, max_version=high)
                for key, high in ((ApiKey.API_VERSIONS, 4), (ApiKey.BROKER_HEARTBEAT, 1))
            ]
            response: Any = ApiVersionsResponse(api_keys=keys)
        else:
            self._asked.append(self._node_id)
            response = self._answer()
        if response is not None:
            self._transport.writelines(
                encode_response(
                    header.api_key, header.api_version, header.correlation_id, response
                )
            )


class ControllerWorld:
    """Controllers 1.. of which `leader` leads, and a channel of node 9 to the leader."""

    def __init__(self) -> None:
        self.leader = NO_CONTROLLER
        self.asked: list[int] = []
        self.addresses: dict[int, Address] = {}
        self.local: Callable[[], object] = lambda: BrokerHeartbeatResponse()
        route = ControllerLocator(9, lambda: self.leader, self.addresses.get, self._call)
        self.link = ControllerChannel(
            RealNetwork(), RealClock(1), route, name="test", limits=QUICK
        )
        self._servers: list[asyncio.Server] = []

    def _call(self, key: int, body: object) -> asyncio.Future[Any]:
        self.asked.append(9)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_result(self.local())
        return answer

    async def controller(self, node_id: int, answer: MakeResponse) -> None:
        server = await asyncio.get_running_loop().create_server(
            lambda: FakeController(answer, self.asked, node_id), "127.0.0.1", 0
        )
        self._servers.append(server)
        self.addresses[node_id] = Address("127.0.0.1", server.sockets[0].getsockname()[1])

    def lead(self, node_id: int) -> None:
        self.leader = node_id
        self.link.leader_changed()

    async def ask(self, timeout_ms: int = LONG_MS, retry: bool = True) -> Any:
        return await self.link.request(
            ApiKey.BROKER_HEARTBEAT, BrokerHeartbeatRequest(), timeout_ms=timeout_ms, retry=retry
        )

    def close(self) -> None:
        self.link.close()
        for server in self._servers:
            server.close()


def run_story(story: Callable[[ControllerWorld], Any]) -> None:
    async def run() -> None:
        world = ControllerWorld()
        try:
            await story(world)
        finally:
            world.close()

    asyncio.run(run())


def ok() -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_caught_up=True)


def not_controller() -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)


def test_a_request_waits_for_a_controller_to_be_known() -> None:
    """An election is not an error."""

    async def story(world: ControllerWorld) -> None:
        await world.controller(1, ok)
        waiting = asyncio.ensure_future(world.ask())
        await asyncio.sleep(0)
        assert not waiting.done()
        world.lead(1)
        assert (await waiting).is_caught_up
        assert world.asked == [1]

    run_story(story)


def test_who_is_not_the_controller_any_more_is_not_the_last_word() -> None:
    """NOT_CONTROLLER costs one attempt; the answer is the new controller's."""

    async def story(world: ControllerWorld) -> None:
        await world.controller(2, ok)

        def stepped_down() -> BrokerHeartbeatResponse:
            world.leader = 2
            return not_controller()

        await world.controller(1, stepped_down)
        world.lead(1)
        assert (await world.ask()).is_caught_up
        assert world.asked == [1, 2]

    run_story(story)


def test_a_request_does_not_hang_on_a_controller_that_was_replaced() -> None:
    """The old one never answers; a new controller ends the wait immediately."""

    async def story(world: ControllerWorld) -> None:
        await world.controller(1, lambda: None)
        await world.controller(2, ok)
        world.lead(1)
        waiting = asyncio.ensure_future(world.ask())
        while world.asked != [1]:
            await asyncio.sleep(0.001)
        world.lead(2)
        assert (await waiting).is_caught_up
        assert world.asked == [1, 2]

    run_story(story)


def test_where_this_process_leads_no_socket_is_between() -> None:
    """The dispatcher is called."""

    async def story(world: ControllerWorld) -> None:
        world.local = ok
        world.lead(9)
        assert (await world.ask()).is_caught_up
        assert world.asked == [9]

    run_story(story)


def test_without_retries_the_first_failure_is_the_answer() -> None:
    """A heartbeat has its own rhythm."""

    async def story(world: ControllerWorld) -> None:
        with pytest.raises(PeerError):
            await world.ask(retry=False)
        await world.controller(1, not_controller)
        world.lead(1)
        assert (await world.ask(retry=False)).error_code == ErrorCode.NOT_CONTROLLER
        assert world.asked == [1]

    run_story(story)


def test_when_the_time_is_over_it_says_why() -> None:
    """And a closed link says so at once."""

    async def story(world: ControllerWorld) -> None:
        await world.controller(1, lambda: None)
        world.lead(1)
        with pytest.raises(PeerError) as caught:
            await world.ask(timeout_ms=60)
        assert caught.value.kind is PeerErrorKind.TIMED_OUT
        world.link.close()
        with pytest.raises(PeerError) as caught:
            await world.ask()
        assert caught.value.kind is PeerErrorKind.DISCONNECTED

    run_story(story)
