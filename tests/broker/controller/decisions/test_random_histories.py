"""Random histories of a cluster: laws that hold after every decision of any history.

A model of the data accompanies the metadata: how many acknowledged records each replica holds. A
record is acknowledged when all in-sync replicas hold it and are at least min.insync.replicas. The
main law: a leader holds everything acknowledged, unless its election was marked as unclean.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker.controller.decisions import elections
from broker.controller.decisions.partition_change import Election
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import NO_LEADER, LeaderRecoveryState, MetadataImage, PartitionImage
from broker.metadata.image_writer import image_records
from broker.metadata.versions import MAX_LEVEL, MIN_LEVEL
from tests.broker.controller.decisions.world import CLUSTER, ControlWorld

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b")
STEPS = 250

Place = tuple[str, int]


class AcknowledgedModel:
    """Counts the acknowledged records and how many of them each replica holds."""

    def __init__(self) -> None:
        self.acknowledged: dict[Place, int] = {}
        self.held: dict[tuple[Place, int], int] = {}

    def catch_up(self, place: Place, broker_id: int) -> None:
        self.held[place, broker_id] = self.acknowledged.get(place, 0)

    def lose(self, broker_id: int) -> None:
        """An unclean stop: the broker may have lost any of its records."""
        for place, holder in self.held:
            if holder == broker_id:
                self.held[place, holder] //= 2


class DecisionHistory:
    """Runs one random history and checks the laws."""

    def __init__(self, seed: int, level: int) -> None:
        self.dice = Random(seed)
        self.world = ControlWorld(level, min_isr=2)
        self.ghost = AcknowledgedModel()
        self.before: dict[Place, PartitionImage] = {}
        self.unclean_stops = level >= MAX_LEVEL
        self.world.start(*BROKERS)
        for name in TOPICS:
            self.world.create(name, 3, 3, self.dice.randrange(4))
        self.check()

    def run(self) -> None:
        steps = (
            self.fence, self.start, self.start, self.start, self.produce, self.produce,
            self.sync, self.sync, self.sync, self.shrink, self.elect, self.move, self.cancel,
            self.balance, self.minimum, self.beat, self.stale, self.recreate,
        )  # fmt: skip
        for _ in range(STEPS):
            self.dice.choice(steps)()
            self.check()

    # -- steps --------------------------------------------------------------------------

    def broker(self) -> int:
        return self.dice.choice(BROKERS)

    def place(self) -> tuple[Place, PartitionImage]:
        name = self.dice.choice(TOPICS)
        index = self.dice.randrange(3)
        return (name, index), self.world.partition(name, index)

    def fence(self) -> None:
        self.world.fence(self.broker())

    def start(self) -> None:
        """A broker restarts, or is unfenced without a restart."""
        broker_id = self.broker()
        if self.dice.random() < 0.5:
            clean = not self.unclean_stops or self.dice.random() < 0.8
            if not clean:
                self.ghost.lose(broker_id)
            self.world.register(broker_id, clean=clean)
            self.check()
        self.world.unfence(broker_id)

    def beat(self) -> None:
        wish = self.dice.choice(({}, {"want_fence": True}, {"want_shut_down": True}))
        self.world.beat(self.broker(), self.dice.random() < 0.5, **wish)

    def produce(self) -> None:
        for name in TOPICS:
            for index in range(3):
                partition = self.world.partition(name, index)
                # Never more than the partition has replicas (KIP-966).
                wanted = self.world.rules.min_isr(self.world.image, name)
                minimum = min(wanted, len(partition.replicas))
                if partition.leader != NO_LEADER and len(partition.isr) >= minimum:
                    place = (name, index)
                    self.ghost.acknowledged[place] = self.ghost.acknowledged.get(place, 0) + 1
                    for one in partition.isr:
                        self.ghost.catch_up(place, one)

    def sync(self) -> None:
        """A follower has caught up; the controller decides whether it joins the in-sync set."""
        (name, index), partition = self.place()
        out = [one for one in partition.replicas if one not in partition.isr]
        if partition.leader == NO_LEADER or not out:
            return
        joins = self.dice.choice(out)
        held = self.ghost.held.get(((name, index), partition.leader), 0)
        self.ghost.held[(name, index), joins] = held
        self.world.isr(name, index, *partition.isr, joins)

    def shrink(self) -> None:
        (name, index), partition = self.place()
        if partition.leader != NO_LEADER:
            stay = [
                one for one in partition.isr
                if one == partition.leader or self.dice.random() < 0.5
            ]
            self.world.isr(name, index, *stay)

    def stale(self) -> None:
        """A former leader sends a request; nothing may change."""
        (name, index), partition = self.place()
        image = self.world.image
        if partition.leader != NO_LEADER and partition.partition_epoch:
            error = self.world.isr(
                name, index, partition.leader, partition_epoch=partition.partition_epoch - 1
            )
            assert error
            assert self.world.image is image

    def elect(self) -> None:
        (name, index), _ = self.place()
        self.world.elect(Election.PREFERRED, (name, index))

    def balance(self) -> None:
        self.world.decide(elections.balance_leaders(self.world.image, self.world.rules))

    def move(self) -> None:
        (name, index), _ = self.place()
        target = self.dice.sample(BROKERS, self.dice.randint(1, 3))
        self.world.move(name, index, tuple(target))

    def cancel(self) -> None:
        (name, index), _ = self.place()
        self.world.move(name, index, None)

    def minimum(self) -> None:
        value = self.dice.choice(("1", "2", "3", None))
        self.world.set_config(self.dice.choice(TOPICS), "min.insync.replicas", value)

    def recreate(self) -> None:
        if self.dice.random() > 0.2:
            return
        name = self.dice.choice(TOPICS)
        active = sum(self.world.image.is_active(one) for one in BROKERS)
        if active:
            self.world.delete(name)
            self.world.create(name, 3, 3, self.dice.randrange(4))
            for index in range(3):
                self.before.pop((name, index), None)
                self.ghost.acknowledged.pop((name, index), None)
                for one in BROKERS:
                    self.ghost.held.pop(((name, index), one), None)

    # -- laws ---------------------------------------------------------------------------

    def check(self) -> None:
        for topic, partition in self.world.image.partitions():
            place = (topic.name, partition.index)
            self.check_shape(partition)
            self.check_epochs(self.before.get(place), partition)
            self.check_data(place, self.before.get(place), partition)
            self.before[place] = partition

    def check_shape(self, partition: PartitionImage) -> None:
        image = self.world.image
        assert len(set(partition.replicas)) == len(partition.replicas)
        assert set(partition.isr) <= set(partition.replicas)
        assert set(partition.elr) <= set(partition.replicas) - set(partition.isr)
        assert set(partition.adding_replicas) <= set(partition.replicas)
        assert set(partition.removing_replicas) <= set(partition.replicas)
        assert len(partition.directories) == len(partition.replicas)
        if partition.leader != NO_LEADER:
            assert partition.leader in partition.isr
            assert all(image.is_active(one) for one in partition.isr)
        if not image.elr_enabled:
            assert partition.isr
            assert not partition.elr

    def check_epochs(self, old: PartitionImage | None, new: PartitionImage) -> None:
        if old is None or old is new:
            return
        assert new.partition_epoch > old.partition_epoch
        assert new.leader_epoch >= old.leader_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch

    def check_data(
        self, place: Place, old: PartitionImage | None, new: PartitionImage
    ) -> None:
        if new.leader == NO_LEADER:
            return
        held = self.ghost.held.get((place, new.leader), 0)
        elected = old is not None and old.leader_epoch != new.leader_epoch
        if elected and new.recovery is LeaderRecoveryState.RECOVERING:
            self.ghost.acknowledged[place] = held
        assert held == self.ghost.acknowledged.get(place, 0), (place, old, new)


@pytest.mark.parametrize("level", [MIN_LEVEL, MAX_LEVEL])
@pytest.mark.parametrize("seed", range(12))
def test_the_laws_hold_after_every_decision(seed: int, level: int) -> None:
    """Checks shape, epochs and data, and that replaying the records gives the same image."""
    history = DecisionHistory(seed, level)
    history.run()
    image = history.world.image
    assert replayed(history.world.records, image) == image
    assert replayed(list(image_records(image)), image) == image


def replayed(records: list[object], like: MetadataImage) -> MetadataImage:
    """The image of these records alone, at the same offset."""
    delta = MetadataDelta(MetadataImage(cluster_id=CLUSTER))
    for record in records:
        delta.replay(record)
    return replace(delta.apply(like.offset, like.epoch).image)
