"""The faults of a story. Each fault begins, waits for the flow to go on if possible, and ends.

In: a stage with active clients. Out: the same stage after the fault. Never: a check (the stage's),
a limit on the recovery time (the bench's).
"""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
from confluent_kafka.admin import AdminClient

from bus.client.admin import queries
from bus.client.wire.ports import Address
from bus.client.wire.sync_client import SyncClient, SyncConnection
from bus.errors import BusError
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.processes.cluster.history_client import PARTITIONS
from tests.processes.cluster.stage import RunningStory, eventually
from tests.processes.cluster.theatre import Theatre
from tests.processes.slow_fsync import slow_fsync

Fault = Callable[[Theatre, RunningStory], None]
STALL_MS = 3000
BEHIND = "behind"  # a topic that no client of the stage knows


def active_controller(stage: RunningStory, *, but: int = 0) -> int:
    """The active controller: the quorum's leader, or in ZooKeeper mode the one that brokers report.
    `but` is not asked, since its answer may be outdated."""
    found = [-1]
    bootstrap = ",".join(b.bootstrap for b in stage.cluster.brokers if b.node_id != but)

    def known() -> bool:
        nodes = SyncClient(bootstrap, "story", request_timeout_ms=5000)
        try:
            found[0] = queries.quorum(nodes).leader_id
        except BusError:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            found[0] = admin.list_topics(timeout=5).controller_id
        finally:
            nodes.close()
        return found[0] > 0

    eventually(known, "there is an active controller", stage.describe_brokers)
    return found[0]


def kill_the_leader(theatre: Theatre, stage: RunningStory) -> None:
    """Kills the leader with -9; the flow goes on with two brokers, then the leader restarts."""
    leader = stage.leader()
    stage.cluster.kill(leader)
    stage.leads_elsewhere(leader)
    stage.flows("while the leader is dead")
    stage.cluster.restart(leader)


def kill_the_controller(theatre: Theatre, stage: RunningStory) -> None:
    """Kills the active controller with -9; another takes over."""
    controller = active_controller(stage)
    stage.cluster.kill(controller)
    stage.flows("while the controller is dead")
    stage.cluster.restart(controller)


def kill_a_follower(theatre: Theatre, stage: RunningStory) -> None:
    """Kills a follower of partition 0 with -9."""
    follower = stage.follower()
    stage.cluster.kill(follower)
    stage.flows("while a follower is dead")
    stage.cluster.restart(follower)


def kill_two_of_three(theatre: Theatre, stage: RunningStory) -> None:
    """Kills two brokers at once with -9: nothing is acknowledged until they are back, nothing is
    lost."""
    leader = stage.leader()
    other = stage.follower()
    stage.cluster.kill(leader)
    stage.cluster.kill(other)
    theatre.start_together([leader, other])
    stage.flows("after two died")


def kill_the_leader_again_and_again(theatre: Theatre, stage: RunningStory) -> None:
    """Kills three leaders one after the other, each back before the next dies."""
    for _ in range(3):
        kill_the_leader(theatre, stage)
        eventually(stage.all_in_sync, "all copies are in sync between two deaths", stage.describe_brokers)


def pause_the_leader(theatre: Theatre, stage: RunningStory) -> None:
    """Stops the leader with SIGSTOP until its session has expired and another leads, then resumes
    it with outdated state."""
    leader = stage.leader()
    stage.pause(leader)
    stage.leads_elsewhere(leader)
    stage.flows("while the old leader sleeps")
    stage.resume(leader)


def pause_the_controller(theatre: Theatre, stage: RunningStory) -> None:
    """Stops the active controller with SIGSTOP until another takes over."""
    controller = active_controller(stage)
    stage.pause(controller)
    eventually(
        lambda: active_controller(stage) != controller, "another controller decides", stage.describe_brokers
    )
    stage.flows("while the old controller sleeps")
    stage.resume(controller)


def restart_in_turn(theatre: Theatre, stage: RunningStory) -> None:
    """Stops each node cleanly with SIGTERM and restarts it, node by node."""
    for node_id in sorted(stage.cluster.nodes):
        status = stage.cluster.terminate(node_id)
        assert status == 0, f"node {node_id} ended with {status}\n{stage.describe_brokers()}"
        stage.flows(f"while node {node_id} is away")
        stage.cluster.restart(node_id)
        eventually(stage.all_in_sync, f"all in sync after node {node_id}", stage.describe_brokers)


def cut_off_the_leader(verdict: str) -> Fault:
    """Cuts the leader off all brokers; every client still reaches it."""

    def cut(theatre: Theatre, stage: RunningStory) -> None:
        leader = stage.leader()
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != leader]
        theatre.networks.cut(leader, [*others, theatre.zookeeper_host], verdict)
        eventually(
            lambda: _leader_seen_by_others(stage, leader) not in (-1, leader),
            "the others have another leader",
            stage.describe_brokers,
        )
        stage.flows("while the old leader is cut off")
        theatre.networks.heal(leader)

    return cut


def cut_off_the_controller(verdict: str) -> Fault:
    """Cuts the active controller off all brokers but not its clients; the others elect another."""

    def cut(theatre: Theatre, stage: RunningStory) -> None:
        old = active_controller(stage)
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != old]
        theatre.networks.cut(old, [*others, theatre.zookeeper_host], verdict)
        eventually(
            lambda: active_controller(stage, but=old) != old,
            "the others have another controller",
            stage.describe_brokers,
        )
        stage.flows("while the old controller is cut off")
        theatre.networks.heal(old)

    return cut


def cut_off_a_follower(verdict: str) -> Fault:
    """Cuts one follower off all brokers."""

    def cut(theatre: Theatre, stage: RunningStory) -> None:
        follower = stage.follower()
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != follower]
        theatre.networks.cut(follower, [*others, theatre.zookeeper_host], verdict)
        stage.flows("while a follower is cut off")
        theatre.networks.heal(follower)

    return cut


def cut_between_two(theatre: Theatre, stage: RunningStory) -> None:
    """Cuts the leader from one follower; the third broker reaches both."""
    leader, follower = stage.leader(), stage.follower()
    theatre.networks.cut(leader, [theatre.networks.address(follower)], "drop")
    stage.flows("while two do not see each other")
    theatre.networks.heal(leader)


def slow_link(theatre: Theatre, stage: RunningStory) -> None:
    """Delays all traffic of broker 1, then slows it down, then stops it for a while."""
    for word in ("delay 200", "rate 200000"):
        theatre.link(word)
        stage.flows(f"with {word}")
        theatre.link("pass")
    stage.make(BEHIND)
    theatre.link("stall")
    # Clients and followers no longer reach broker 1. Records stored only there cannot be copied.
    put_alone(theatre.behind_link, BEHIND)
    eventually(lambda: not stage.all_in_sync(BEHIND), "the copies are not in sync", stage.describe_brokers)
    theatre.link("pass")
    eventually(lambda: stage.all_in_sync(BEHIND), "the copies are in sync again", stage.describe_brokers)


def put_alone(port: int, topic: str) -> None:
    """Writes a record to each partition that the broker at this port leads, acknowledged only by
    it."""
    batch = bytes(build_batch([Record(None, b"alone")]))
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    connection = SyncConnection(Address("127.0.0.1", port), "story")
    try:
        known = connection.request(
            ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        )
        named = TopicProduceData(name=topic, topic_id=known.topics[0].topic_id, partition_data=data)
        body = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[named])
        answer = connection.request(ApiKey.PRODUCE, body)
    finally:
        connection.close()
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert 0 in codes, f"the broker leads no partition of {topic}: {codes}"


def full_disk(theatre: Theatre, stage: RunningStory) -> None:
    """Fills broker 2's disk; the others continue; it gets room again and comes back."""
    theatre.small_disk.leave(0)
    eventually(lambda: _shrunk(stage), "the copies on the full disk are not in sync", stage.describe_brokers)
    stage.flows("while a disk is full")
    theatre.small_disk.resize(theatre.disk_bytes)
    process = stage.cluster.nodes[2].process
    if process.poll() is None:
        process.kill()
        process.wait()
    stage.cluster.restart(2)


def stalled_disk(theatre: Theatre, stage: RunningStory) -> None:
    """Makes each flush of the leader take three seconds, longer than two heartbeats; the flow goes
    on."""
    leader = stage.leader()
    with slow_fsync(stage.cluster.nodes[leader].process.pid, STALL_MS):
        stage.flows("while the leader's disk stalls")
        stage.flows("while it still does")


def _shrunk(stage: RunningStory) -> bool:
    return not stage.all_in_sync()


def _leader_seen_by_others(stage: RunningStory, old: int) -> int:
    """The leader as the brokers on the other side report it: the old leader does not know yet."""
    others = [broker.bootstrap for broker in stage.cluster.brokers if broker.node_id != old]
    with_others = AdminClient({"bootstrap.servers": ",".join(others), "log_level": 0})
    try:
        partition = with_others.list_topics("story", timeout=5).topics["story"].partitions[0]
    except (confluent_kafka.KafkaException, KeyError):
        return -1
    return int(partition.leader)
