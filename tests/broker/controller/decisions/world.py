"""A cluster's metadata changed by decisions only: each decision is replayed immediately."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from broker.controller.decisions import (
    alter_partition,
    brokers,
    configs,
    create_partitions,
    elections,
    heartbeat,
    reassignment,
    topics,
)
from broker.controller.decisions.configs import Alteration, AlterOperation, ResourceAlteration
from broker.controller.decisions.decision import Decision, Reply
from broker.controller.decisions.features import bootstrap
from broker.controller.decisions.partition_change import Election
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import (
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    ResourceType,
)
from broker.metadata.versions import MAX_LEVEL, SUPPORTED
from bus.errors import ErrorCode

CLUSTER = "a-cluster"
FEATURES = tuple(FeatureRange(name, low, high) for name, (low, high) in SUPPORTED.items())
"""What a node of this code says of itself when it registers."""


class ControlWorld:
    """The state of an active controller; brokers exist only through their requests.

    Invariant: `image` is the replay of `records` on an empty image.
    """

    def __init__(self, level: int = MAX_LEVEL, min_isr: int = 2) -> None:
        self.rules = PartitionPolicy(min_insync_replicas=min_isr)
        self.image = MetadataImage(cluster_id=CLUSTER)
        self.records: list[object] = []
        self.last: tuple[object, ...] = ()
        self._ids = (number.to_bytes(16, "big") for number in count(1000))
        self._lives = count(1)
        self.decide(bootstrap(self.image, None, level))

    def decide(self, decision: Decision[Reply]) -> Reply:
        """Stores and replays the decision's records; returns its reply."""
        self.last = decision.records
        if decision.records:
            delta = MetadataDelta(self.image)
            for record in decision.records:
                delta.replay(record)
            self.records += decision.records
            self.image = delta.apply(len(self.records) - 1, 1).image
        return decision.reply

    # -- brokers ------------------------------------------------------------------------

    def register(
        self,
        broker_id: int,
        *,
        clean: bool = True,
        rack: str | None = None,
        alive: bool = False,
        log_dirs: tuple[bytes, ...] | None = None,
        port: int | None = None,
        cluster_id: str = CLUSTER,
        previous_epoch: int | None = None,
    ) -> brokers.RegistrationResult:
        """A broker registers. With `clean` it sends its previous epoch, by default the last one."""
        old = self.image.brokers.get(broker_id)
        if previous_epoch is None:
            previous_epoch = old.epoch if clean and old else -1
        asked = brokers.Registration(
            broker_id=broker_id,
            incarnation_id=next(self._lives).to_bytes(16, "big"),
            endpoints=(Endpoint("PLAINTEXT", f"host{broker_id}", port or 9000 + broker_id),),
            log_dirs=log_dirs or (bytes([broker_id]) * 16,),
            rack=rack,
            cluster_id=cluster_id,
            features=FEATURES,
            previous_epoch=previous_epoch,
        )
        return self.decide(
            brokers.register(self.image, self.rules, asked, len(self.records), alive)
        )

    def start(self, *broker_ids: int, racks: Mapping[int, str] | None = None) -> None:
        """Registers and unfences brokers."""
        for broker_id in broker_ids:
            self.register(broker_id, rack=(racks or {}).get(broker_id))
            self.unfence(broker_id)

    def unfence(self, broker_id: int) -> None:
        """Unfences a broker, which has caught up."""
        epoch = self.image.brokers[broker_id].epoch
        self.decide(brokers.unfence(self.image, self.rules, broker_id, epoch))

    def fence(self, broker_id: int) -> None:
        """Fences a broker, whose session has expired."""
        epoch = self.image.brokers[broker_id].epoch
        self.decide(brokers.fence(self.image, self.rules, broker_id, epoch))

    def beat(
        self, broker_id: int, others_caught_up: bool = True, offset: int = 1 << 60, **wants: bool
    ) -> heartbeat.HeartbeatReply:
        """Sends a broker's heartbeat."""
        epoch = self.image.brokers[broker_id].epoch
        beat = heartbeat.Heartbeat(
            broker_id,
            epoch,
            offset,
            want_fence=wants.get("want_fence", False),
            want_shut_down=wants.get("want_shut_down", False),
        )
        return self.decide(
            heartbeat.answer_heartbeat(self.image, self.rules, beat, others_caught_up)
        )

    # -- topics -------------------------------------------------------------------------

    def create(
        self, name: str, partitions: int, factor: int, start: int = 0
    ) -> topics.TopicResult:
        """Creates a topic with automatic placement."""
        asked = topics.NewTopic(name, partitions, factor)
        return self._create(asked, start)

    def create_at(self, name: str, *replicas: tuple[int, ...]) -> topics.TopicResult:
        """Creates a topic with the given replicas."""
        return self._create(topics.NewTopic(name, assignments=dict(enumerate(replicas))), 0)

    def _create(self, asked: topics.NewTopic, start: int) -> topics.TopicResult:
        defaults = topics.Defaults(1, 1)
        decision = topics.create_topics(self.image, [asked], defaults, self._ids, start)
        return self.decide(decision)[0]

    def grow(self, name: str, total: int) -> ErrorCode:
        """Adds partitions."""
        defaults = topics.Defaults(1, 1)
        asked = [create_partitions.NewPartitions(name, total)]
        return self.decide(create_partitions.create_partitions(self.image, asked, defaults, 0))[0].error

    def delete(self, name: str) -> None:
        """Deletes a topic."""
        self.decide(topics.delete_topics(self.image, [name]))

    def set_config(self, topic: str, key: str, value: str | None) -> ErrorCode:
        """Sets one key of one topic, or of the cluster if no topic is given."""
        kind = ResourceType.TOPIC if topic else ResourceType.BROKER
        operation = AlterOperation.DELETE if value is None else AlterOperation.SET
        asked = ResourceAlteration(int(kind), topic, (Alteration(key, operation, value),))
        reply = self.decide(configs.alter_configs(self.image, [asked], policy=self.rules))
        return reply[0].error

    def partition(self, name: str, index: int = 0) -> PartitionImage:
        """The partition's current state."""
        return self.image.topics[name].partitions[index]

    # -- partitions ---------------------------------------------------------------------

    def isr(
        self,
        name: str,
        index: int,
        *isr: int,
        leader: int | None = None,
        epoch_of: Mapping[int, int] | None = None,
        **stale: int,
    ) -> ErrorCode:
        """The leader requests a change of the in-sync set."""
        topic = self.image.topics[name]
        partition = topic.partitions[index]
        asker = partition.leader if leader is None else leader
        known = self.image.brokers.get(asker)
        epochs = {one: (epoch_of or {}).get(one, self._epoch(one)) for one in isr}
        change = alter_partition.IsrChange(
            topic.topic_id,
            index,
            stale.get("leader_epoch", partition.leader_epoch),
            stale.get("partition_epoch", partition.partition_epoch),
            epochs,
        )
        error, results = self.decide(
            alter_partition.alter_partitions(
                self.image,
                self.rules,
                asker,
                stale.get("broker_epoch", -1 if known is None else known.epoch),
                [change],
            )
        )
        return error or results[0].error

    def _epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def elect(self, election: Election, *wanted: tuple[str, int]) -> ErrorCode:
        """Requests an election; returns the first partition's result."""
        reply = self.decide(
            elections.elect_leaders(self.image, self.rules, election, wanted or None)
        )
        return reply[0].error if reply else ErrorCode.NONE

    def move(
        self, name: str, index: int, replicas: tuple[int, ...] | None, may_change: bool = True
    ) -> ErrorCode:
        """Reassigns one partition, or cancels its reassignment."""
        asked = [reassignment.Reassignment(name, index, replicas)]
        reply = self.decide(
            reassignment.alter_reassignments(self.image, self.rules, asked, may_change)
        )
        return reply[0].error
