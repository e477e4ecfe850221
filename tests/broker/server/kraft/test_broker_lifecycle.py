"""A broker's lifecycle with its controller: its requests and their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.metadata.image import Endpoint
from broker.peer.controller_channel import ControllerChannel
from broker.server.control_plane import StartError
from broker.server.kraft import broker_lifecycle
from broker.server.kraft.broker_lifecycle import (
    BrokerIdentity,
    BrokerLifecycleManager,
    LifecycleState,
)
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from bus.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

ME = BrokerIdentity(3, "cluster", b"i" * 16, None, (b"d" * 16,), 11)
PLACE = (Endpoint("PLAINTEXT", "127.0.0.1", 19092),)
AWAY = PeerError(PeerErrorKind.DISCONNECTED, "nobody is there")


class Script:
    """Replaces the channel: answers registrations from a list, heartbeats by a function."""

    def __init__(self) -> None:
        self.registrations: deque[BrokerRegistrationResponse | PeerError] = deque()
        self.heartbeat: Callable[[BrokerHeartbeatRequest], BrokerHeartbeatResponse] = serving
        self.heard: list[Any] = []

    async def request(self, api_key: int, body: Any, *, timeout_ms: int, retry: bool) -> Any:
        await asyncio.sleep(0)
        self.heard.append(body)
        if api_key == ApiKey.BROKER_REGISTRATION:
            answer: Any = self.registrations.popleft()
        else:
            answer = self.heartbeat(body)
        if isinstance(answer, PeerError):
            raise answer
        return answer


def serving(beat: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=True, is_fenced=beat.want_fence, should_shut_down=beat.want_shut_down
    )


def registered(epoch: int) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=epoch)


def refused(error: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=error)


def play(story: Callable[[Script, BrokerLifecycleManager, list[StartError]], Any], **keys: str) -> None:
    async def run() -> None:
        script, failures = Script(), list[StartError]()
        config = BrokerConfig.from_mapping(
            {"broker.heartbeat.interval.ms": "5"}
            | {name.replace("_", "."): value for name, value in keys.items()}
        )
        lifecycle = BrokerLifecycleManager(
            ME,
            RealClock(1),
            cast(ControllerChannel, script),
            config,
            metadata_offset=lambda: 40,
            offline_directories=tuple,
            cordoned_directories=lambda: (b"d" * 16,),
            fail=failures.append,
        )
        try:
            async with asyncio.timeout(60):
                await story(script, lifecycle, failures)
        finally:
            lifecycle.stop()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a test's length."""
    monkeypatch.setattr(broker_lifecycle, "REGISTRATION_RETRY_MS", 1)
    monkeypatch.setattr(broker_lifecycle, "NO_CONTROLLER_TIMEOUT_MS", 50)


def test_it_asks_until_it_is_taken_and_says_what_it_can_vouch_for() -> None:
    """A missing controller, an election and a former process still registered are no errors."""

    async def story(script: Script, broker: BrokerLifecycleManager, _: list[StartError]) -> None:
        script.registrations += [
            AWAY,
            refused(ErrorCode.NOT_CONTROLLER),
            refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION),
            registered(17),
        ]
        assert await broker.register(PLACE) == 17
        assert broker.state is LifecycleState.RECOVERY
        asked = cast(BrokerRegistrationRequest, script.heard[-1])
        assert (asked.broker_id, asked.previous_broker_epoch) == (3, 11)
        assert asked.log_dirs == [b"d" * 16]

    play(story)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "log.dirs"),
        (ErrorCode.UNSUPPORTED_VERSION, "newer version"),
        (ErrorCode.INVALID_REGISTRATION, "node.id"),
    ],
)
def test_what_waiting_does_not_mend_ends_the_start(error: ErrorCode, remedy: str) -> None:
    """In a sentence."""

    async def story(script: Script, broker: BrokerLifecycleManager, _: list[StartError]) -> None:
        script.registrations.append(refused(error))
        with pytest.raises(StartError, match=remedy):
            await broker.register(PLACE)

    play(story)


def test_another_live_broker_of_the_same_id_ends_the_start_after_a_while() -> None:
    """It waits as long as the other one might be its own previous process."""

    async def story(script: Script, broker: BrokerLifecycleManager, _: list[StartError]) -> None:
        script.registrations += [refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)] * 1000
        with pytest.raises(StartError, match="its own"):
            await broker.register(PLACE)

    play(story, initial_broker_registration_timeout_ms="20")


def test_it_stays_fenced_until_its_handlers_serve_and_leaves_when_it_may() -> None:
    """RECOVERY wants the fence, RUNNING does not, LEAVING wants to go."""

    async def story(script: Script, broker: BrokerLifecycleManager, _: list[StartError]) -> None:
        script.registrations.append(registered(17))
        await broker.register(PLACE)
        broker.start()
        while len(script.heard) < 4:
            await asyncio.sleep(0.001)
        assert broker.is_fenced
        await broker.wait_until_unfenced()
        assert not broker.is_fenced
        await broker.controlled_shutdown()
        assert broker.state is LifecycleState.SHUTTING_DOWN
        wants = [
            (beat.want_fence, beat.want_shut_down) for beat in script.heard[1:]
        ]
        assert list(dict.fromkeys(wants)) == [(True, False), (False, False), (False, True)]
        assert {beat.current_metadata_offset for beat in script.heard[1:]} == {40}
        assert script.heard[-1].cordoned_log_dirs == [b"d" * 16]

    play(story)


def test_it_goes_without_consent_where_no_controller_answers() -> None:
    """The whole cluster is being stopped."""

    async def story(script: Script, broker: BrokerLifecycleManager, _: list[StartError]) -> None:
        script.registrations.append(registered(17))
        await broker.register(PLACE)
        broker.start()
        await broker.wait_until_unfenced()
        script.heartbeat = lambda _: cast(BrokerHeartbeatResponse, AWAY)
        await broker.controlled_shutdown()
        assert broker.state is LifecycleState.SHUTTING_DOWN

    play(story)


def test_one_that_was_forgotten_registers_again_and_one_that_was_replaced_ends() -> None:
    """An operator's mistake must not become two brokers that both write."""

    async def story(script: Script, broker: BrokerLifecycleManager, failures: list[StartError]) -> None:
        script.registrations += [registered(17), registered(18)]
        await broker.register(PLACE)
        broker.start()
        await broker.wait_until_unfenced()
        stale = [BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)]
        script.heartbeat = lambda beat: stale.pop() if stale else serving(beat)
        while broker.epoch != 18:
            await asyncio.sleep(0.001)
        assert not failures
        script.registrations.append(refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION))
        stale.append(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
        while not failures:
            await asyncio.sleep(0.001)
        assert "its own" in str(failures[0])

    play(story)
