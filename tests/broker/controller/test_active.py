"""The active controller's memory: sessions, probes, controlled stops, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.config.views import BrokerConfig
from broker.controller.active import ActiveController
from broker.controller.decisions import brokers
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.delegation_tokens import TokenLimits, WantedToken, create_token
from broker.controller.decisions.heartbeat import BrokerControlState, Heartbeat, HeartbeatReply
from broker.metadata.image import NO_LEADER, Endpoint, MetadataImage
from broker.metadata.versions import MIN_LEVEL
from broker.security.principal import Principal
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import CLUSTER, FEATURES, ControlWorld
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife, VirtualLoop


class ImmediateController:
    """A controller of one voter over the decisions' world."""

    def __init__(self, world: ControlWorld) -> None:
        self.world = world
        self.is_active = True
        self.epoch = 1
        self.leader_id = 100

    @property
    def image(self) -> MetadataImage:
        return self.world.image

    @property
    def committed(self) -> MetadataImage:
        return self.world.image

    @property
    def end_offset(self) -> int:
        return len(self.world.records)

    def write(
        self,
        decide: Callable[[MetadataImage], Decision[Any]],
        done: Callable[[Any], None],
        failed: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        if self.is_active:
            done(self.world.decide(decide(self.image)))
        elif failed is not None:
            failed(ErrorCode.NOT_CONTROLLER)


class SilentNetwork:
    """Every connection is refused, or none is ever answered."""

    def __init__(self) -> None:
        self.refuses = False
        self.asked = 0

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        self.asked += 1
        if self.refuses:
            raise ConnectionRefusedError("nobody listens")
        await asyncio.get_running_loop().create_future()
        raise AssertionError("never answered")


class ActiveControllerStage:
    """Three brokers in service, one topic, one active controller."""

    def __init__(self, world: ControlWorld | None = None) -> None:
        self.loop = VirtualLoop()
        self.life = ProcessLife("controller")
        self.clock = SimClock(self.loop, self.life, random.Random(1))
        self.world = world or ControlWorld()
        self.world.start(1, 2, 3)
        self.world.create_at("t", (1, 2, 3))
        self.network = SilentNetwork()
        self.controller = ImmediateController(self.world)
        self.config = BrokerConfig({"broker.session.timeout.ms": "9000"})
        self.active = ActiveController(
            self.controller, self.clock, self.network, lambda: self.config, 3
        )

    def play(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            self.active.on_active()
            await story()
            self.active.on_inactive()
            await asyncio.sleep(0)

        self.loop.run_until_complete(whole())
        self.loop.close()

    async def live(self, seconds: float, *broker_ids: int) -> None:
        """These brokers report every second."""
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            for broker_id in broker_ids:
                self.beat(broker_id)

    def beat(self, broker_id: int, offset: int | None = None, stop: bool = False) -> HeartbeatReply:
        answers: list[HeartbeatReply] = []
        broker = self.world.image.brokers[broker_id]
        beat = Heartbeat(
            broker_id,
            broker.epoch,
            self.controller.end_offset - 1 if offset is None else offset,
            want_shut_down=stop,
        )
        self.active.heartbeat(beat, answers.append, lambda error: None)
        return answers[0]

    def register(self, broker_id: int, port: int) -> brokers.RegistrationResult:
        replies: list[brokers.RegistrationResult] = []
        asked = brokers.Registration(
            broker_id=broker_id,
            incarnation_id=bytes([port % 256]) * 16,
            endpoints=(Endpoint("PLAINTEXT", f"host{broker_id}", port),),
            log_dirs=(bytes([broker_id]) * 16,),
            cluster_id=CLUSTER,
            features=FEATURES,
        )
        self.active.register(asked, replies.append, lambda error: None)
        return replies[0]

    def fenced(self) -> list[int]:
        return [one.broker_id for one in self.world.image.brokers.values() if one.fenced]


def test_a_silent_broker_is_fenced_when_its_session_has_expired_and_not_before() -> None:
    """Its leadership goes to the next replica in sync."""
    stage = ActiveControllerStage()

    async def story() -> None:
        await stage.live(8, 2, 3)
        assert stage.fenced() == []
        await stage.live(2, 2, 3)
        assert stage.fenced() == [1]
        assert stage.world.partition("t").leader == 2

    stage.play(story)


def test_a_reset_connection_and_a_failed_probe_fence_at_once() -> None:
    """Another broker leads well within a second, without waiting for the session to expire."""
    stage = ActiveControllerStage()

    async def story() -> None:
        stage.network.refuses = True
        await asyncio.sleep(0.5)
        stage.active.connection_lost(1)
        assert stage.fenced() == []
        await asyncio.sleep(0.4)
        assert stage.fenced() == [1]

    stage.play(story)


def test_a_heartbeat_during_the_probe_saves_the_broker() -> None:
    """Only one connection was reset; the broker itself is alive."""
    stage = ActiveControllerStage()

    async def story() -> None:
        stage.active.connection_lost(1)
        await asyncio.sleep(0.1)
        stage.beat(1)
        await asyncio.sleep(0.5)
        assert stage.fenced() == []
        assert stage.network.asked == 1

    stage.play(story)


def test_a_controller_that_stood_still_does_not_blame_the_brokers() -> None:
    """After SIGSTOP of the controller for a minute no broker is fenced: the silence was its own."""
    stage = ActiveControllerStage()

    async def story() -> None:
        await stage.live(2, 1, 2, 3)
        stage.loop.pause(stage.life)
        await asyncio.sleep(60)
        stage.loop.resume(stage.life)
        await stage.live(3, 1, 2, 3)
        assert stage.fenced() == []

    stage.play(story)


def test_a_broker_that_stops_is_let_go_when_the_others_know() -> None:
    """The broker hands over its leadership and may stop once all others have read that."""
    stage = ActiveControllerStage()

    async def story() -> None:
        old = stage.controller.end_offset - 1
        for broker_id in (1, 2, 3):
            stage.beat(broker_id, old)
        assert stage.beat(1, old, stop=True).state is BrokerControlState.CONTROLLED_SHUTDOWN
        assert stage.world.partition("t").leader == 2
        stage.beat(2)
        assert not stage.beat(1, old, stop=True).should_shut_down
        stage.active.note_offset(3, stage.controller.end_offset - 1)
        assert stage.beat(1, old, stop=True).should_shut_down
        assert stage.fenced() == [1]

    stage.play(story)


def test_a_new_controller_lets_a_stopping_broker_go_too() -> None:
    """The new controller finds in the records that the broker was stopping."""
    stage = ActiveControllerStage()

    async def story() -> None:
        stage.beat(1, stop=True)
        stage.active.on_active()
        stage.beat(2)
        stage.beat(3)
        assert stage.beat(1, stop=True).should_shut_down

    stage.play(story)


def test_a_second_life_waits_until_the_first_is_known_to_be_over() -> None:
    """A second process at another address is refused and the first one probed. At the same address,
    with the same directories, it is accepted: the first process cannot hold them any longer."""
    stage = ActiveControllerStage()

    async def story() -> None:
        stage.network.refuses = True
        assert stage.register(1, 7001).error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await asyncio.sleep(0.5)
        assert stage.register(1, 7001).error is ErrorCode.NONE
        assert stage.register(2, 9002).error is ErrorCode.NONE
        assert stage.fenced() == [1, 2]
        assert stage.world.partition("t").leader == 3

    stage.play(story)


def test_leaders_come_home_by_the_interval() -> None:
    """The preferred replica leads again at the next interval after it is back in sync."""
    stage = ActiveControllerStage()
    stage.config = BrokerConfig({"leader.imbalance.check.interval.seconds": "5"})

    async def story() -> None:
        stage.world.fence(1)
        stage.world.unfence(1)
        stage.world.isr("t", 0, 2, 3, 1)
        await stage.live(3, 1, 2, 3)
        assert stage.world.partition("t").leader == 2
        await stage.live(3, 1, 2, 3)
        assert stage.world.partition("t").leader == 1

    stage.play(story)


def test_an_unclean_election_comes_at_once_when_somebody_allows_it() -> None:
    """It does not wait for the five minutes of its interval."""
    stage = ActiveControllerStage(ControlWorld(MIN_LEVEL, min_isr=1))

    async def story() -> None:
        for broker_id in (3, 2, 1):
            stage.world.fence(broker_id)
        stage.world.unfence(2)
        await stage.live(3, 2)
        assert stage.world.partition("t").leader == NO_LEADER
        stage.world.set_config("t", "unclean.leader.election.enable", "true")
        await stage.live(1, 2)
        assert stage.world.partition("t").leader == 2

    stage.play(story)


def test_one_that_is_not_the_controller_changes_nothing() -> None:
    """It refuses writes and runs no periodic work."""
    stage = ActiveControllerStage()

    async def story() -> None:
        stage.controller.is_active = False
        refused: list[ErrorCode] = []
        stage.active.heartbeat(Heartbeat(1, 0, 0), lambda answer: None, refused.append)
        assert refused == [ErrorCode.NOT_CONTROLLER]
        await asyncio.sleep(20)
        assert stage.fenced() == []

    stage.play(story)


@pytest.mark.parametrize("secret_key", ["key", ""])
def test_tokens_that_have_expired_go_at_the_interval_of_the_check_where_there_are_any(
    secret_key: str,
) -> None:
    """At no request: the time of the whole cluster is that of its controller."""
    stage = ActiveControllerStage()
    stage.config = BrokerConfig({
        "delegation.token.secret.key": secret_key,
        "delegation.token.expiry.check.interval.ms": "20000",
    })  # fmt: skip
    who = Principal("User", "a")
    left: list[set[str]] = []

    async def story() -> None:
        for token_id, most_ms in (("short", 5_000), ("long", 30_000)):
            asked = WantedToken(who, who, (), most_ms)
            lifetimes = TokenLimits(most_ms, most_ms)
            now_ms = stage.clock.now_ms()
            stage.world.decide(create_token(asked, token_id, lifetimes, now_ms))
        for _ in range(3):
            await stage.live(15, 1, 2, 3)
            left.append(set(stage.world.image.delegation_tokens))

    stage.play(story)
    both, nothing = {"short", "long"}, set[str]()
    expected = [both, {"long"}, nothing] if secret_key else [both, both, both]
    assert left == expected
