"""Election, failover, decisions and manual writes, on a real ZooKeeper."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from broker.controller.decisions.alter_partition import IsrChange, alter_partitions
from broker.controller.decisions.brokers import fence
from broker.controller.decisions.decision import Decision
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.topics import NewTopic, delete_topics
from broker.controller.zk import znodes
from broker.controller.zk.state_machines import ControllerReplicaState
from broker.metadata.image import MetadataImage, ResourceType
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ConfigRecord
from tests.broker.controller.zk.nodes import ZooKeeperTestBroker, until

pytestmark = [pytest.mark.java, pytest.mark.slow]

Nodes = dict[int, ZooKeeperTestBroker]


def read(tool: KazooClient, path: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(tool.get(path)[0])
    return found


def led(nodes: Nodes, topic: str, leader: int, *, index: int = 0) -> bool:
    """Returns whether every broker knows this leader."""
    return all(
        (known := node.partition(topic, index)) is not None and known.leader == leader
        for node in nodes.values()
    )


async def test_one_of_three_is_controller_and_the_znodes_say_so(
    nodes: Nodes, tool: KazooClient
) -> None:
    """The first epoch is 1; every broker knows the controller and the live brokers."""
    assert [node.controller.is_active for node in nodes.values()] == [True, False, False]
    assert read(tool, "/controller")["brokerid"] == 1
    assert tool.get("/controller_epoch")[0] == b"1"
    await until(lambda: all(set(n.follower.image.brokers) == {1, 2, 3} for n in nodes.values()))
    assert {node.controller.leader_id for node in nodes.values()} == {1}


async def test_a_topic_is_created_as_kafka_writes_it_and_every_broker_knows_it(
    nodes: Nodes, tool: KazooClient
) -> None:
    """Creates the assignment with topic id, the partition states and an empty configuration."""
    (made,) = await nodes[1].create(NewTopic("vehicle", 3, 3))
    assert made.error is ErrorCode.NONE
    written = read(tool, "/brokers/topics/vehicle")
    assert (written["version"], written["adding_replicas"]) == (3, {})
    assert written["topic_id"] == znodes.text_of_id(made.topic_id)
    state = read(tool, "/brokers/topics/vehicle/partitions/1/state")
    assert (state["leader_epoch"], state["controller_epoch"], len(state["isr"])) == (0, 1, 3)
    assert read(tool, "/config/topics/vehicle") == {"version": 1, "config": {}}
    for index in range(3):
        leader = json.loads(tool.get(f"/brokers/topics/vehicle/partitions/{index}/state")[0])
        assert led(nodes, "vehicle", leader["leader"], index=index)


async def test_only_the_controller_decides(nodes: Nodes) -> None:
    """Other brokers answer NOT_CONTROLLER immediately."""
    answer = await nodes[2].write(lambda image: Decision((), None))
    assert answer is ErrorCode.NOT_CONTROLLER


async def test_when_the_controller_goes_another_takes_over_under_the_next_epoch(
    nodes: Nodes, tool: KazooClient
) -> None:
    """Its partitions get new leaders from the in-sync set."""
    await nodes[1].create(NewTopic("t", assignments={0: (1, 2, 3)}))
    await nodes[1].stop()
    await until(lambda: led(nodes, "t", 2))
    assert tool.get("/controller_epoch")[0] == b"2"
    assert [n for n in (2, 3) if nodes[n].controller.is_active] == [
        read(tool, "/controller")["brokerid"]
    ]
    state = read(tool, "/brokers/topics/t/partitions/0/state")
    assert (state["isr"], state["leader_epoch"], state["controller_epoch"]) == ([2, 3], 1, 2)


async def test_a_controller_that_was_replaced_writes_nothing(
    nodes: Nodes, tool: KazooClient
) -> None:
    """The epoch znode has another version, so the whole multi fails (C-FO-02)."""
    tool.set("/controller_epoch", b"7")
    answer = await nodes[1].write(
        lambda image: Decision(
            (ConfigRecord(resource_type=4, resource_name="", name="num.partitions", value="5"),),
            None,
        )
    )
    assert answer is ErrorCode.NOT_CONTROLLER
    assert not tool.exists("/config/brokers/<default>")
    await until(lambda: any(node.controller.is_active for node in nodes.values()))
    assert int(tool.get("/controller_epoch")[0]) == 8


async def test_a_topic_made_by_hand_is_taken_up_and_gets_an_id(
    nodes: Nodes, tool: KazooClient
) -> None:
    """Reads version 1, as a tool of 2014 writes it (C-NTC-01..05)."""
    tool.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[3,1],"1":[2,3]}}')
    await until(lambda: led(nodes, "old", 3) and led(nodes, "old", 2, index=1))
    written = read(tool, "/brokers/topics/old")
    assert written["version"] == 3
    assert written["topic_id"]
    assert read(tool, "/brokers/topics/old/partitions/0/state")["isr"] == [3, 1]


async def test_partitions_added_by_hand_are_taken_up(nodes: Nodes, tool: KazooClient) -> None:
    """C-NTC-06..08."""
    await nodes[1].create(NewTopic("t", assignments={0: (1, 2)}))
    path = "/brokers/topics/t"
    written = read(tool, path)
    written["partitions"] = {"0": [1, 2], "1": [3, 2]}
    tool.set(path, json.dumps(written).encode())
    await until(lambda: led(nodes, "t", 3, index=1))
    assert read(tool, f"{path}/partitions/1/state")["isr"] == [3, 2]


async def test_a_topic_that_makes_no_sense_is_left_alone(nodes: Nodes, tool: KazooClient) -> None:
    """Other topics are handled as usual (C-LSN-10)."""
    tool.create("/brokers/topics/broken", b"what")
    tool.create("/brokers/topics/fine", b'{"version":1,"partitions":{"0":[2]}}')
    await until(lambda: led(nodes, "fine", 2))
    assert tool.get("/brokers/topics/broken")[0] == b"what"


async def test_a_marker_deletes_a_topic_once_every_replica_is_gone(
    nodes: Nodes, tool: KazooClient
) -> None:
    """Nothing of the topic is left in ZooKeeper; the marker is removed last (C-DEL-25)."""
    await nodes[1].create(NewTopic("t", 2, 3))
    tool.create("/admin/delete_topics/t")
    await until(lambda: not tool.exists("/admin/delete_topics/t"))
    assert not tool.exists("/brokers/topics/t")
    assert not tool.exists("/config/topics/t")
    for node in nodes.values():
        assert set(node.deleted) == {("t", 0), ("t", 1)}
        assert "t" not in node.follower.image.topics


async def test_deletion_waits_for_a_broker_that_is_away(nodes: Nodes, tool: KazooClient) -> None:
    """The name stays in use until the broker has returned (C-DEL-27, C-DEL-28)."""
    await nodes[1].create(NewTopic("t", 1, 3))
    root = tool.hosts[0]
    hosts = f"{root[0]}:{root[1]}{tool.chroot}"
    await nodes[3].stop()
    await until(lambda: 3 not in nodes[1].controller.image.brokers)
    await nodes[1].write(lambda image: delete_topics(image, ["t"]))
    await until(lambda: nodes[2].deleted == [("t", 0)])
    assert tool.exists("/admin/delete_topics/t")
    (again,) = await nodes[1].create(NewTopic("t", 1, 1))
    assert again.error is ErrorCode.TOPIC_ALREADY_EXISTS
    back = ZooKeeperTestBroker(3, hosts, nodes)
    await back.start()
    await until(lambda: not tool.exists("/admin/delete_topics/t"))
    assert back.deleted == [("t", 0)]
    (again,) = await nodes[1].create(NewTopic("t", 1, 1))
    assert again.error is ErrorCode.NONE
    await back.stop()


async def test_a_marker_for_an_unknown_topic_is_removed(nodes: Nodes, tool: KazooClient) -> None:
    """C-DEL-01."""
    tool.create("/admin/delete_topics/nobody")
    await until(lambda: not tool.exists("/admin/delete_topics/nobody"))


async def test_a_reassignment_in_the_znode_runs_and_its_node_goes(
    nodes: Nodes, tool: KazooClient
) -> None:
    """The new replica starts to follow; once it is in sync the old one is deleted (C-RA-26)."""
    (made,) = await nodes[1].create(NewTopic("t", assignments={0: (1, 2)}))
    tool.create(
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}',
    )
    await until(lambda: nodes[3].partition("t") and nodes[3].partition("t").adding_replicas)
    assert read(tool, "/brokers/topics/t")["adding_replicas"] == {"0": [3]}
    held = nodes[1].controller.image.partition(made.topic_id, 0)
    assert held is not None
    change = IsrChange(
        made.topic_id, 0, held.leader_epoch, held.partition_epoch, {1: -1, 2: -1, 3: -1}
    )
    epoch = nodes[1].controller.image.brokers[1].epoch
    await nodes[1].write(lambda image: alter_partitions(image, PartitionPolicy(), 1, epoch, [change]))
    await until(lambda: not tool.exists("/admin/reassign_partitions"))
    written = read(tool, "/brokers/topics/t")
    assert (written["partitions"], written["removing_replicas"]) == ({"0": [1, 3]}, {})
    await until(lambda: nodes[2].deleted == [("t", 0)])


async def test_a_preferred_election_in_the_znode_is_held(nodes: Nodes, tool: KazooClient) -> None:
    """Its znode is removed afterwards (C-PRE-01..07)."""
    await nodes[1].create(NewTopic("t", assignments={0: (2, 3)}))
    path = "/brokers/topics/t/partitions/0/state"
    state = read(tool, path)
    state |= {"leader": 3, "leader_epoch": 1}
    tool.set(path, json.dumps(state).encode())
    tool.create("/isr_change_notification/isr_change_", json.dumps(
        {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    ).encode(), sequence=True)  # fmt: skip
    await until(lambda: led(nodes, "t", 3))
    assert not tool.get_children("/isr_change_notification")
    tool.create(
        "/admin/preferred_replica_election",
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    )
    await until(lambda: led(nodes, "t", 2))
    await until(lambda: not tool.exists("/admin/preferred_replica_election"))


async def test_a_foreign_write_of_a_state_is_seen_and_the_decision_made_again(
    nodes: Nodes, tool: KazooClient
) -> None:
    """The write was conditional on an outdated version, so neither change is lost."""
    await nodes[1].create(NewTopic("t", assignments={0: (2, 3, 1)}))
    path = "/brokers/topics/t/partitions/0/state"
    state = read(tool, path)
    tool.set(path, json.dumps(state | {"isr": [2, 3]}).encode())
    epoch = nodes[1].controller.image.brokers[2].epoch
    await nodes[1].write(lambda image: fence(image, PartitionPolicy(), 2, epoch))
    assert read(tool, path)["isr"] == [3]
    await until(lambda: led(nodes, "t", 3))


async def test_configurations_changed_by_hand_reach_every_broker(
    nodes: Nodes, tool: KazooClient
) -> None:
    """A notification names the node, and the brokers read it (C-ZK-08)."""
    await nodes[1].create(NewTopic("t", 1, 1))
    tool.set("/config/topics/t", b'{"version":1,"config":{"retention.ms":"5"}}')
    tool.create(
        "/config/changes/config_change_", b'{"version":2,"entity_path":"topics/t"}', sequence=True
    )
    for node in nodes.values():
        await node.member.read_change_notifications()
        assert node.follower.image.topic_config("t") == {"retention.ms": "5"}


async def test_a_configuration_set_by_a_client_is_written_and_notified(
    nodes: Nodes, tool: KazooClient
) -> None:
    """Writes the whole map of the entity, then a sequential notification."""
    record = ConfigRecord(resource_type=4, resource_name="3", name="log.cleaner.threads", value="2")
    await nodes[1].write(lambda image: Decision((record,), None))
    assert read(tool, "/config/brokers/3") == {
        "version": 1, "config": {"log.cleaner.threads": "2"}
    }  # fmt: skip
    (note,) = tool.get_children("/config/changes")
    assert note == "config_change_0000000000"
    assert read(tool, f"/config/changes/{note}") == {"version": 2, "entity_path": "brokers/3"}
    await nodes[2].member.read_change_notifications()
    key = (ResourceType.BROKER, "3")
    assert nodes[2].follower.image.configs[key] == {"log.cleaner.threads": "2"}


async def test_two_brokers_of_one_id_do_not_both_register(nodes: Nodes, tool: KazooClient) -> None:
    """The same id at another address is another broker (G-04)."""
    root = tool.hosts[0]
    twin = ZooKeeperTestBroker(2, f"{root[0]}:{root[1]}{tool.chroot}", {})
    twin.session.start(twin)
    await until(lambda: twin.session.state.name == "CONNECTED")
    stranger = znodes.encode_broker(
        znodes.BrokerInfo(2, (znodes.Endpoint("PLAINTEXT", "127.0.0.1", 1),)), 1
    )
    assert not twin.member._has_same_address(stranger)
    assert twin.member._has_same_address(tool.get("/brokers/ids/2")[0])
    await twin.session.close()


async def test_a_large_topic_fits_into_several_transactions(
    nodes: Nodes, tool: KazooClient
) -> None:
    """It has more nodes than one `multi` may carry."""
    (made,) = await nodes[1].create(NewTopic("large", 500, 3))
    assert made.error is ErrorCode.NONE
    assert len(tool.get_children("/brokers/topics/large/partitions")) == 500
    image: MetadataImage = nodes[3].follower.image
    assert len(image.topics["large"].partitions) == 500
    assert all(one.leader >= 0 for one in image.topics["large"].partitions)


async def test_a_broker_that_refuses_to_delete_keeps_the_topic_waiting(
    nodes: Nodes, tool: KazooClient
) -> None:
    """The marker stays, and the broker is asked again when it comes back (C-DEL-20)."""
    await nodes[1].create(NewTopic("t", assignments={0: (2,)}))
    nodes[2].refuses_deletion = True
    tool.create("/admin/delete_topics/t")
    await until(
        lambda: nodes[1].controller.replica_state("t", 0, 2) is ControllerReplicaState.DELETION_INELIGIBLE
    )
    assert tool.exists("/brokers/topics/t")
    assert tool.exists("/admin/delete_topics/t")
