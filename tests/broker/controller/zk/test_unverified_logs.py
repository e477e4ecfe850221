"""A broker that lost its page cache is out of the in-sync sets before it leads or follows again,
also if no controller noticed that it was gone (ADR 0032). Runs on a simulated ensemble in virtual
time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import BrokerZnode, ensure_paths, get_or_create_cluster_id
from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.port import SessionState, WatchEvent
from broker.metadata.image import Endpoint, MetadataImage, PartitionImage
from bus.protocol.generated.leader_and_isr import LeaderAndIsrRequest
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife
from tests.simulation.world import SimWorld
from tests.simulation.zookeeper import Ensemble

TOPIC_ID = bytes(range(16))


class UnverifiedBroker:
    """Session, znode and controller of broker `node_id`; the controller's requests get no
    answer."""

    def __init__(self, world: SimWorld, ensemble: Ensemble, node_id: int, unsound: bool) -> None:
        life = ProcessLife(f"party{node_id}")
        clock = SimClock(world.loop, life, world.dice_of(f"clock{node_id}"))
        process = SimpleNamespace(life=life, clock=clock)
        self.session = ensemble.session(SimpleNamespace(node_id=node_id), process)
        self.sent: list[tuple[int, Any]] = []
        self.controller = ZooKeeperController(
            node_id, self.session, clock, policy=PartitionPolicy, send=self.send, committed=MetadataImage
        )
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + node_id)
        self.member = BrokerZnode(
            self.session, clock, znodes.BrokerInfo(node_id, (endpoint,), is_unverified=unsound),
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


def run_story(story: Any) -> None:
    world = SimWorld("unsound-logs")
    ensemble = Ensemble(world)

    async def whole() -> None:
        one = UnverifiedBroker(world, ensemble, 1, unsound=True)
        two = UnverifiedBroker(world, ensemble, 2, unsound=False)
        await asyncio.sleep(1.0)
        await ensure_paths(one.session)
        await get_or_create_cluster_id(one.session, "cluster")
        await one.member.register()
        await two.member.register()
        await story(one, two)

    world.run(whole())
    world.end()


async def make_topic(party: UnverifiedBroker, isr: tuple[int, ...]) -> None:
    """Both brokers replicate it; broker 1 leads."""
    info = znodes.TopicAssignment({0: (1, 2)}, TOPIC_ID)
    await party.session.create(znodes.topic_path("t"), znodes.encode_topic(info))
    await party.session.create(f"{znodes.topic_path('t')}/partitions")
    await party.session.create(znodes.partition_path("t", 0))
    state = znodes.encode_state(znodes.PartitionStateNode(1, 0, isr, 1))
    await party.session.create(znodes.state_path("t", 0), state)


async def become_controller(party: UnverifiedBroker) -> None:
    party.controller.start()
    party.controller.elect()
    while not party.controller.is_active or 1 not in party.controller.image.brokers:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("controller", [1, 2])
def test_a_new_controller_takes_an_unsound_broker_out_of_the_in_sync_set_first(controller: int):
    """The other broker leads under a new epoch, also if the controller is the unsound broker
    itself."""

    async def story(*parties: UnverifiedBroker) -> None:
        await make_topic(parties[0], (1, 2))
        party = parties[controller - 1]
        await become_controller(party)
        held = party.partition()
        assert (held.leader, held.leader_epoch, held.isr) == (2, 1, (2,))
        sent_states = [
            state
            for broker_id, body in party.sent
            if broker_id == 1 and isinstance(body, LeaderAndIsrRequest)
            for topic in body.topic_states
            for state in topic.partition_states
        ]
        assert all(state.leader == 2 for state in sent_states)

    run_story(story)


def test_the_last_one_in_sync_leads_again_whatever_it_lost():
    """It is elected because no other copy could be more complete."""

    async def story(one: UnverifiedBroker, two: UnverifiedBroker) -> None:
        await make_topic(one, (1,))
        await become_controller(two)
        held = two.partition()
        while held.leader != 1:
            await asyncio.sleep(0.05)
            held = two.partition()
        assert (held.leader, held.isr) == (1, (1,))

    run_story(story)


def test_a_broker_that_has_vouched_keeps_its_place_under_the_next_controller():
    """Its znode no longer has the mark, and its epoch is unchanged."""

    async def story(one: UnverifiedBroker, two: UnverifiedBroker) -> None:
        await make_topic(one, (1, 2))
        epoch = one.member.epoch
        await one.member.mark_verified()
        await become_controller(two)
        held = two.partition()
        assert (held.leader, held.leader_epoch, held.isr) == (1, 0, (1, 2))
        assert two.controller.image.brokers[1].epoch == epoch

    run_story(story)


def test_a_watch_that_fires_while_the_office_is_taken_is_not_lost():
    """A topic created between the reading of the topics and the end of the failover is noticed."""

    async def story(one: UnverifiedBroker, two: UnverifiedBroker) -> None:
        await one.member.mark_verified()
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
        await become_controller(two)
        for _ in range(100):
            await asyncio.sleep(0.05)
        assert "made" in done
        assert "t" in two.controller.image.topics

    run_story(story)


def test_the_mark_is_in_the_node_only_while_it_holds():
    """Without the mark the znode has exactly Kafka's bytes."""
    info = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),))
    assert b"unsound" not in znodes.encode_broker(info, 0)
    marked = znodes.BrokerInfo(1, (Endpoint("PLAINTEXT", "h", 1),), is_unverified=True)
    assert znodes.decode_broker(1, znodes.encode_broker(marked, 0)).is_unverified
    assert not znodes.decode_broker(1, znodes.encode_broker(info, 0)).is_unverified
