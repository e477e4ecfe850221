"""Records to conditional writes: order, versions, sizes."""

from __future__ import annotations

from itertools import count

from broker.controller.decisions.topics import Defaults, NewTopic, create_topics
from broker.controller.zk import znodes
from broker.controller.zk.config_plan import KnownConfigNodes
from broker.controller.zk.plan import MAX_OPERATIONS, Fence, Plan, plan
from broker.controller.zk.port import Check, Create, SetData
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage
from bus.protocol.generated.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)

FENCE = Fence(epoch=7, zk_version=9)


def replayed(image: MetadataImage, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + len(records), 1).image


def three_brokers() -> MetadataImage:
    return replayed(MetadataImage(cluster_id="c"), *(
        RegisterBrokerRecord(
            broker_id=one, broker_epoch=one, fenced=False,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092)],
        )
        for one in (1, 2, 3)
    ))  # fmt: skip


def with_topic(partitions: int = 2) -> tuple[MetadataImage, MetadataImage, Plan]:
    before = three_brokers()
    ids = (number.to_bytes(16, "big") for number in count(1))
    records = create_topics(
        before, [NewTopic("t", partitions, 3)], Defaults(1, 1), ids, 0
    ).records
    after = replayed(before, *records)
    return before, after, plan(before, after, records, FENCE, {}, KnownConfigNodes())


def test_every_transaction_begins_with_the_check_of_the_epoch() -> None:
    """A replaced controller writes nothing, also if the plan takes several transactions."""
    _, _, planned = with_topic(500)
    assert len(planned.multis) > 1
    for multi in planned.multis:
        assert multi[0] == Check(znodes.CONTROLLER_EPOCH, 9)
        assert len(multi) <= MAX_OPERATIONS + 1


def test_a_new_topic_has_its_configuration_before_its_assignment_before_its_states() -> None:
    """A reader that finds the assignment finds the rest, or can create it."""
    _, _, planned = with_topic(2)
    (multi,) = planned.multis
    assert [one.path for one in multi[1:]] == [
        "/config/topics/t", "/brokers/topics/t", "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1", "/brokers/topics/t/partitions/1/state",
    ]  # fmt: skip
    assert planned.notifications == ()


def test_a_state_is_written_on_the_version_that_is_the_partition_epoch() -> None:
    """Each change is one write, so that version and partition epoch stay equal."""
    _, image, _ = with_topic(1)
    topic_id = image.topics["t"].topic_id
    one = PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1, 2])
    two = PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1])
    after = replayed(image, one, two)
    planned = plan(image, after, (one, two), FENCE, {"t": 0}, KnownConfigNodes())
    (multi,) = planned.multis
    writes = [op for op in multi if isinstance(op, SetData)]
    assert [write.version for write in writes] == [0, 1]
    assert {write.path for write in writes} == {znodes.state_path("t", 0)}
    assert after.topics["t"].partitions[0].partition_epoch == 2


def test_a_reassignment_rewrites_the_assignment_on_its_version() -> None:
    """The assignment includes the adding and removing replicas."""
    _, image, _ = with_topic(1)
    record = PartitionChangeRecord(
        topic_id=image.topics["t"].topic_id, partition_id=0, replicas=[1, 2, 3],
        adding_replicas=[3], removing_replicas=[],
    )  # fmt: skip
    after = replayed(image, record)
    (multi,) = plan(image, after, (record,), FENCE, {"t": 4}, KnownConfigNodes()).multis
    assignment = multi[1]
    assert isinstance(assignment, SetData)
    assert (assignment.path, assignment.version) == ("/brokers/topics/t", 4)
    assert znodes.decode_topic("t", assignment.data).adding == {0: (3,)}


def test_a_configuration_is_created_or_changed_and_then_notified() -> None:
    """The node read before decides which of the two is planned."""
    image = three_brokers()
    record = ConfigRecord(resource_type=4, resource_name="", name="num.partitions", value="3")
    after = replayed(image, record)
    path = "/config/brokers/<default>"
    (made,) = plan(image, after, (record,), FENCE, {}, KnownConfigNodes()).multis
    assert isinstance(made[1], Create)
    planned = plan(image, after, (record,), FENCE, {}, KnownConfigNodes({path: ConfigNode(4)}))
    (changed,) = planned.multis
    assert changed[1] == SetData(path, znodes.encode_config({"num.partitions": "3"}), 4)
    assert planned.configs == {path: ConfigNode(5)}
    note = (znodes.CONFIG_CHANGE_PREFIX, znodes.encode_change("brokers/<default>"))
    assert planned.notifications == (note,)


def test_deleting_a_topic_leaves_a_marker_and_touches_nothing_else() -> None:
    """The replicas must be deleted first."""
    _, image, _ = with_topic(2)
    record = RemoveTopicRecord(topic_id=image.topics["t"].topic_id)
    planned = plan(image, replayed(image, record), (record,), FENCE, {"t": 0}, KnownConfigNodes())
    (multi,) = planned.multis
    assert multi[1:] == (Create("/admin/delete_topics/t"),)
    assert planned.deleted_topics == ("t",)


def test_a_block_of_producer_ids_is_kafkas_block() -> None:
    """Start and end are inclusive and written as strings."""
    image = three_brokers()
    record = ProducerIdsRecord(broker_id=3, broker_epoch=1, next_producer_id=2000)
    (multi,) = plan(image, replayed(image, record), (record,), FENCE, {}, KnownConfigNodes()).multis
    assert multi[1] == SetData(znodes.PRODUCER_IDS, znodes.encode_producer_block(3, 2000))


def test_brokers_are_not_written_their_own_nodes_say_where_they_are() -> None:
    """The plan has no write, not even an empty transaction."""
    image = three_brokers()
    record = RegisterBrokerRecord(broker_id=4, fenced=False)
    assert plan(image, replayed(image, record), (record,), FENCE, {}, KnownConfigNodes()).multis == ()
