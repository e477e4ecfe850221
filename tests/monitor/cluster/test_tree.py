"""The metadata as a tree: records folded, bounded lists, secrets kept."""

from __future__ import annotations

from bus.client.model import StoredRecord
from bus.protocol.generated import metadata_records as records
from monitor.cluster.tree import NEWEST, MetadataTree
from monitor.console.cluster_rows import MAX_CHILDREN, tree_nodes
from monitor.i18n import texts

TOPIC_ID = bytes(range(16))


def folded(*changes: object) -> MetadataTree:
    tree = MetadataTree()
    tree.apply(
        StoredRecord(at, 1, 1000, type(one).__name__, one) for at, one in enumerate(changes)
    )
    return tree


MADE = (
    records.TopicRecord("plates", TOPIC_ID),
    records.PartitionRecord(
        0, TOPIC_ID, [1, 2], [1, 2], leader=1, leader_epoch=0, partition_epoch=0
    ),
)


def test_a_partition_follows_its_changes():
    tree = folded(*MADE, records.PartitionChangeRecord(0, TOPIC_ID, isr=[2], leader=2))
    partition = tree.root["topics"]["plates"]["partitions"]["0"]
    assert (partition["leader"], partition["isr"]) == (2, [2])
    assert (partition["leader_epoch"], partition["partition_epoch"]) == (1, 1)


def test_a_record_names_its_topic_and_only_what_it_changes():
    tree = folded(*MADE, records.PartitionChangeRecord(0, TOPIC_ID, isr=[2], leader=2))
    assert tree.newest[-1]["value"].startswith('{"topic":"plates","partition_id":0,"isr":[2]')
    assert "null" not in tree.newest[-1]["value"]


def test_an_isr_change_alone_is_no_election():
    tree = folded(*MADE, records.PartitionChangeRecord(0, TOPIC_ID, isr=[1]))
    partition = tree.root["topics"]["plates"]["partitions"]["0"]
    assert (partition["leader"], partition["leader_epoch"]) == (1, 0)


def test_a_deleted_topic_takes_its_configuration_along():
    config = records.ConfigRecord(2, "plates", "retention.ms", "1")
    assert folded(*MADE, config).root["configs"] == {"topic plates": {"retention.ms": "1"}}
    gone = folded(*MADE, config, records.RemoveTopicRecord(TOPIC_ID))
    assert gone.root["topics"] == {}
    assert gone.root["configs"] == {}


def test_brokers_are_fenced_and_unfenced():
    tree = folded(
        records.RegisterBrokerRecord(1, broker_epoch=7, fenced=True),
        records.BrokerRegistrationChangeRecord(1, 7, fenced=-1),
    )
    assert tree.root["brokers"]["1"]["fenced"] is False
    assert folded(records.UnregisterBrokerRecord(9, 1)).root["brokers"] == {}


def test_a_controller_is_there_until_it_is_unregistered():
    made = [records.RegisterControllerRecord(one) for one in (1, 2)]
    tree = folded(*made, records.UnregisterControllerRecord(1), records.UnregisterControllerRecord(9))
    assert list(tree.root["controllers"]) == ["2"]


def test_the_newest_records_are_bounded():
    tree = folded(*[records.FeatureLevelRecord("kraft.version", 1)] * (NEWEST + 5))
    tree.apply([StoredRecord(9999, 1, 1, "NoOpRecord", records.NoOpRecord())])
    assert len(tree.newest) == NEWEST
    assert tree.newest[-1]["kind"] == "FeatureLevel"
    assert tree.root["features"] == {"kraft.version": 1}


def test_secrets_do_not_leave():
    tree = folded(records.UserScramCredentialRecord("li", 1, b"salt", b"stored", b"server", 4096))
    assert "c2FsdA" not in tree.newest[0]["value"]
    assert "73746f726564" not in tree.newest[0]["value"]
    assert "(secret)" in tree.newest[0]["value"]


def test_what_a_later_kafka_adds_is_shown_as_unknown():
    tree = MetadataTree()
    tree.apply([StoredRecord(0, 1, 1, "unknown", "metadata record type 99 version 0")])
    assert "type 99" in tree.newest[0]["value"]


def test_the_tree_is_searched_by_path_and_value():
    t = texts("en")
    tree = folded(*MADE).root
    (topics,) = tree_nodes(tree, "plates", t)
    assert topics["children"][0]["label"] == "plates"
    assert tree_nodes(tree, "nowhere", t) == []
    (found,) = tree_nodes(tree, "1, 2", t)
    leaves = found["children"][0]["children"][0]["children"][0]["children"]
    assert [leaf["label"] for leaf in leaves] == ["replicas", "isr"]


def test_a_wide_node_is_cut_and_says_so():
    t = texts("en")
    nodes = tree_nodes({"topics": {f"t{i:05}": {} for i in range(MAX_CHILDREN + 3)}}, "", t)
    assert len(nodes[0]["children"]) == MAX_CHILDREN + 1
    assert "3 more" in nodes[0]["children"][-1]["value"]
