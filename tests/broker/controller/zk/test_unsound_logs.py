"""A broker that lost its page cache is out of the in-sync sets before it leads or follows again,
also where no controller has seen it go (ADR 0032). On a simulated ensemble, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller.decisions.rules import Rules
from broker.controller.zk import znodes
from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.member import Member, ensure_paths, find_or_make_cluster_id
from broker.controller.zk.port import SessionState, WatchEvent
from broker.metadata.image import Endpoint, MetadataImage, PartitionImage
from bus.protocol.generated.leader_and_isr import LeaderAndIsrRequest
from tests.simulation.clock import SimClock
from tests.simulation.loop import Life
from tests.simulation.world import World
from tests.simulation.zookeeper import Ensemble

TOPIC_ID = bytes(range(16))


class Party:
    """Broker `node_id`'s session, its node, and a controller whose requests nobody answers."""

    def __init__(self, world: World, ensemble: Ensemble, node_id: int, unsound: bool) -> None:
        life = Life(f"party{node_id}")
        clock = SimClock(world.loop, life, world.dice_of(f"clock{node_id}"))
        process = SimpleNamespace(life=life, clock=clock)
        self.session = ensemble.session(SimpleNamespace(node_id=node_id), process)
        self.sent: list[tuple[int, Any]] = []
        self.controller = ZooKeeperController(
            node_id, self.session, clock, rules=Rules, send=self.send, committed=MetadataImage
        )
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + node_id)
        self.member = Member(
            self.session, clock, znodes.BrokerInfo(node_id, (endpoint,), is_unsound=unsound),
            6_000, lambda records: None, MetadataImage,
        )  # fmt: skip
        self.session.start(self)

    def on_session(self, state: SessionState, session_id: int) -> None:
        self.controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        self.controller.on_watch(event)

    async def send(self, broker_id: int, key: int, body: object) -> Any:
        self.sent.append((broker_id, body))
        raise SendError("nobody is here")

    def partition(self) -> PartitionImage:
        return self.controller.image.topics["t"].partitions[0]


def tell(story: Any) -> None:
    world = World("unsound-logs")
    ensemble = Ensemble(world)

    async def whole() -> None:
        one = Party(world, ensemble, 1, unsound=True)
        two = Party(world, ensemble, 2, unsound=False)
        await asyncio.sleep(1.0)
        await ensure_paths(one.session)
        await find_or_make_cluster_id(one.session, "cluster")
        await one.member.register()
        await two.member.register()
        await story(one, two)

    world.run(whole())
    world.end()


async def make_topic(party: Party, isr: tuple[int, ...]) -> None:
    """Both brokers replicate it; broker 1 leads."""
    info = znodes.TopicInfo({0: (1, 2)}, TOPIC_ID)
    await party.session.create(znodes.topic_path("t"), znodes.encode_topic(info))
    await party.session.create(f"{znodes.topic_path('t')}/partitions")
    await party.session.create(znodes.partition_path("t", 0))
    state = znodes.encode_state(znodes.StateInfo(1, 0, isr, 1))
    await party.session.create(znodes.state_path("t", 0), state)


async def take_office(party: Party) -> None:
    party.controller.start()
    party.controller.stand()
    while not party.controller.is_active or 1 not in party.controller.image.brokers:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("controller", [1, 2])
def test_a_new_controller_takes_an_unsound_broker_out_of_the_in_sync_set_first(controller: int):
    """Also when it is that broker itself; the other leads, under a new epoch."""

    async def story(*parties: Party) -> None:
        await make_topic(parties[0], (1, 2))
        party = parties[controller - 1]
        await take_office(party)
        held = party.partition()
        assert (held.leader, held.leader_epoch, held.isr) == (2, 1, (2,))
        told = [
            state
            for broker_id, body in party.sent
            if broker_id == 1 and isinstance(body, LeaderAndIsrRequest)
            for topic in body.topic_states
            for state in topic.partition_states
        ]
        assert all(state.leader == 2 for state in told)

    tell(story)


def test_the_last_one_in_sync_leads_again_whatever_it_lost():
    """There is no other copy that could be better."""

    async def story(one: Party, two: Party) -> None:
        await make_topic(one, (1,))
        await take_office(two)
        held = two.partition()
        while held.leader != 1:
            await asyncio.sleep(0.05)
            held = two.partition()
        assert (held.leader, held.isr) == (1, (1,))

    tell(story)


def test_a_broker_that_has_vouched_keeps_its_place_under_the_next_controller():
    """The mark is gone from its node, its epoch is the same."""

    async def story(one: Party, two: Party) -> None:
        await make_topic(one, (1, 2))
        epoch = one.member.epoch
        await one.member.vouch()
        await take_office(two)
        held = two.partition()
        assert (held.leader, held.leader_epoch, held.isr) == (1, 0, (1, 2))
        assert two.controller.image.brokers[1].epoch == epoch

    tell(story)


def test_a_watch_that_fires_while_the_office_is_taken_is_not_lost():
    """A topic made after the topics were read, before the term stands, is heard of."""

    async def story(one: Party, two: Party) -> None:
        await one.member.vouch()
        get = two.session.get

        async def slow(path: str, *, watch: bool = False) -> Any:
            if path == znodes.PRODUCER_IDS and "made" not in done:  # read last
                done["made"] = None
                await make_topic(one, (1, 2))
                await asyncio.sleep(1.0)
                assert not two.controller.is_active
            return await get(path, watch=watch)

        done: dict[str, None] = {}
        two.session.get = slow
        await take_office(two)
        for _ in range(100):
            await asyncio.sleep(0.05)
        assert "made" in done
        assert "t" in two.controller.image.topics

    tell(story)


def test_the_mark_is_in_the_node_only_while_it_holds():
    """Kafka's own bytes otherwise."""
    info = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),))
    assert b"unsound" not in znodes.encode_broker(info, 0)
    marked = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),), is_unsound=True)
    assert znodes.decode_broker(1, znodes.encode_broker(marked, 0)).is_unsound
    assert not znodes.decode_broker(1, znodes.encode_broker(info, 0)).is_unsound
