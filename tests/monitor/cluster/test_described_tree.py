"""A cluster described by its brokers: the tree of the page, with nothing of files or secrets in it."""

from __future__ import annotations

from bus.client.model import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    PartitionDescription,
    QuorumDescription,
    QuorumReplica,
    TopicDescription,
)
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from monitor.cluster.described_tree import described_tree

CLUSTER = ClusterDescription("id-of-it", 1, (BrokerDescription(1, "a", 9092), BrokerDescription(2, "b", 9092, None, True)))
PLATES = TopicDescription("plates", bytes(range(16)), False, (PartitionDescription(0, 1, 7, (1, 2), (1,), elr=(2,)),))
QUORUM = QuorumDescription(1, 3, 40, (QuorumReplica(1, bytes(16), 41, -1, -1),), (), {})
MAY_READ = AclBinding(
    Resource.TOPIC, "plates", Pattern.LITERAL, "User:console", "*", Operation.READ, Permission.ALLOW
)


def test_what_brokers_say_stands_where_the_metadata_would_stand() -> None:
    tree = described_tree(CLUSTER, [PLATES], QUORUM, {}, [MAY_READ])
    assert tree["brokers"]["2"] == {"host": "b", "port": 9092, "rack": None, "fenced": True}
    assert tree["topics"]["plates"]["partitions"]["0"] == {
        "replicas": [1, 2], "isr": [1], "leader": 1, "leader_epoch": 7, "eligible_leader_replicas": [2],
    }  # fmt: skip
    assert tree["quorum"] == {"leader": 1, "epoch": 3, "high_watermark": 40, "voters": {"1": 41}, "observers": {}}
    assert list(tree["acls"].values()) == [MAY_READ.text]
    assert "configs" not in tree, "an empty branch says nothing"


def test_of_configurations_only_what_was_set_while_it_ran_is_shown_and_no_secret() -> None:
    entries = [
        ConfigEntry("retention.ms", "5", 1, False, False),
        ConfigEntry("segment.ms", "6", 5, False, False),
        ConfigEntry("ssl.key.password", None, 3, False, True),
        ConfigEntry("log.dirs", "/data", 4, True, False),
    ]
    tree = described_tree(CLUSTER, [], None, {"topic plates": entries, "topic other": entries[1:2]}, [])
    assert tree["configs"] == {"topic plates": {"retention.ms": "5", "ssl.key.password": "(secret)"}}
    assert "quorum" not in tree
