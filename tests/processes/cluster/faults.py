"""What happens to a cluster in a story. Each fault begins, lets the flow go on if it can, and ends.

In: a stage with clients at work. Out: the same stage, the fault over. Never: a judgement (the
stage's), a bound on how quick a recovery is (the bench's).
"""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
from confluent_kafka.admin import AdminClient

from bus.client.nodes import NodeConnection, Nodes
from bus.client.operate import look
from bus.errors import BusError
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from tests.processes.cluster.history_client import PARTITIONS
from tests.processes.cluster.stage import Stage, eventually
from tests.processes.cluster.theatre import Theatre
from tests.processes.slow_fsync import slow_fsync

Fault = Callable[[Theatre, Stage], None]
STALL_MS = 3000
BEHIND = "behind"  # a topic that no client of the stage knows


def active_controller(stage: Stage, *, but: int = 0) -> int:
    """The node that decides now: of the quorum, or as the brokers tell under ZooKeeper. `but` is not
    asked: it may be of an old opinion."""
    found = [-1]
    bootstrap = ",".join(b.bootstrap for b in stage.cluster.brokers if b.node_id != but)

    def known() -> bool:
        nodes = Nodes(bootstrap, "story", request_timeout_ms=5000)
        try:
            found[0] = look.quorum(nodes).leader_id
        except BusError:
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            found[0] = admin.list_topics(timeout=5).controller_id
        finally:
            nodes.close()
        return found[0] > 0

    eventually(known, "there is an active controller", stage.told)
    return found[0]


def kill_the_leader(theatre: Theatre, stage: Stage) -> None:
    """kill -9; the flow goes on with two, then it comes back."""
    leader = stage.leader()
    stage.cluster.kill(leader)
    stage.leads_elsewhere(leader)
    stage.flows("while the leader is dead")
    stage.cluster.start_again(leader)


def kill_the_controller(theatre: Theatre, stage: Stage) -> None:
    """kill -9 of who decides; another decides."""
    controller = active_controller(stage)
    stage.cluster.kill(controller)
    stage.flows("while the controller is dead")
    stage.cluster.start_again(controller)


def kill_a_follower(theatre: Theatre, stage: Stage) -> None:
    """kill -9 of a copy that leads nothing of partition 0."""
    follower = stage.follower()
    stage.cluster.kill(follower)
    stage.flows("while a follower is dead")
    stage.cluster.start_again(follower)


def kill_two_of_three(theatre: Theatre, stage: Stage) -> None:
    """kill -9 of two at once: nothing can be acknowledged until they are back, nothing is lost."""
    leader = stage.leader()
    other = stage.follower()
    stage.cluster.kill(leader)
    stage.cluster.kill(other)
    theatre.start_together([leader, other])
    stage.flows("after two died")


def kill_the_leader_again_and_again(theatre: Theatre, stage: Stage) -> None:
    """Three leaders one after the other, each back before the next dies."""
    for _ in range(3):
        kill_the_leader(theatre, stage)
        eventually(stage.all_in_sync, "all copies are in sync between two deaths", stage.told)


def pause_the_leader(theatre: Theatre, stage: Stage) -> None:
    """SIGSTOP until its session is over and another leads; then it wakes with old ideas."""
    leader = stage.leader()
    stage.pause(leader)
    stage.leads_elsewhere(leader)
    stage.flows("while the old leader sleeps")
    stage.resume(leader)


def pause_the_controller(theatre: Theatre, stage: Stage) -> None:
    """SIGSTOP of who decides, until another does."""
    controller = active_controller(stage)
    stage.pause(controller)
    eventually(
        lambda: active_controller(stage) != controller, "another controller decides", stage.told
    )
    stage.flows("while the old controller sleeps")
    stage.resume(controller)


def restart_in_turn(theatre: Theatre, stage: Stage) -> None:
    """SIGTERM, an orderly end, a start: node by node."""
    for node_id in sorted(stage.cluster.nodes):
        status = stage.cluster.terminate(node_id)
        assert status == 0, f"node {node_id} ended with {status}\n{stage.told()}"
        stage.flows(f"while node {node_id} is away")
        stage.cluster.start_again(node_id)
        eventually(stage.all_in_sync, f"all in sync after node {node_id}", stage.told)


def cut_off_the_leader(verdict: str) -> Fault:
    """No broker reaches the leader any more, every client does."""

    def cut(theatre: Theatre, stage: Stage) -> None:
        leader = stage.leader()
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != leader]
        theatre.networks.cut(leader, [*others, theatre.zookeeper_host], verdict)
        eventually(
            lambda: _leader_seen_by_others(stage, leader) not in (-1, leader),
            "the others have another leader",
            stage.told,
        )
        stage.flows("while the old leader is cut off")
        theatre.networks.heal(leader)

    return cut


def cut_off_the_controller(verdict: str) -> Fault:
    """Who decides is alone with its clients; the others have another."""

    def cut(theatre: Theatre, stage: Stage) -> None:
        old = active_controller(stage)
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != old]
        theatre.networks.cut(old, [*others, theatre.zookeeper_host], verdict)
        eventually(
            lambda: active_controller(stage, but=old) != old,
            "the others have another controller",
            stage.told,
        )
        stage.flows("while the old controller is cut off")
        theatre.networks.heal(old)

    return cut


def cut_off_a_follower(verdict: str) -> Fault:
    """One follower is alone."""

    def cut(theatre: Theatre, stage: Stage) -> None:
        follower = stage.follower()
        others = [theatre.networks.address(n) for n in stage.cluster.nodes if n != follower]
        theatre.networks.cut(follower, [*others, theatre.zookeeper_host], verdict)
        stage.flows("while a follower is cut off")
        theatre.networks.heal(follower)

    return cut


def cut_between_two(theatre: Theatre, stage: Stage) -> None:
    """Leader and one follower do not see each other; the third sees both."""
    leader, follower = stage.leader(), stage.follower()
    theatre.networks.cut(leader, [theatre.networks.address(follower)], "drop")
    stage.flows("while two do not see each other")
    theatre.networks.heal(leader)


def slow_link(theatre: Theatre, stage: Stage) -> None:
    """Everything to and from broker 1 comes late, then slowly, then not at all for a while."""
    for word in ("delay 200", "rate 200000"):
        theatre.link(word)
        stage.flows(f"with {word}")
        theatre.link("pass")
    stage.make(BEHIND)
    theatre.link("stall")
    # Clients and followers reach broker 1 no more. What it has taken alone nobody can copy.
    put_alone(theatre.behind_link, BEHIND)
    eventually(lambda: not stage.all_in_sync(BEHIND), "the copies are not in sync", stage.told)
    theatre.link("pass")
    eventually(lambda: stage.all_in_sync(BEHIND), "the copies are in sync again", stage.told)


def put_alone(port: int, topic: str) -> None:
    """A record into each partition that the broker at this port leads, acknowledged by it alone."""
    batch = bytes(build_batch([Record(None, b"alone")]))
    data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS)]
    connection = NodeConnection(("127.0.0.1", port), "story")
    try:
        known = connection.ask(
            ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        )
        named = TopicProduceData(name=topic, topic_id=known.topics[0].topic_id, partition_data=data)
        body = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[named])
        answer = connection.ask(ApiKey.PRODUCE, body)
    finally:
        connection.close()
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert 0 in codes, f"the broker leads no partition of {topic}: {codes}"


def full_disk(theatre: Theatre, stage: Stage) -> None:
    """Broker 2 has no room for another record; the others go on; it gets room and comes back."""
    theatre.small_disk.leave(0)
    eventually(lambda: _shrunk(stage), "the copies on the full disk are not in sync", stage.told)
    stage.flows("while a disk is full")
    theatre.small_disk.resize(theatre.disk_bytes)
    process = stage.cluster.nodes[2].process
    if process.poll() is None:
        process.kill()
        process.wait()
    stage.cluster.start_again(2)


def stalled_disk(theatre: Theatre, stage: Stage) -> None:
    """Every flush of the leader takes three seconds, longer than two heartbeats; the flow goes on."""
    leader = stage.leader()
    with slow_fsync(stage.cluster.nodes[leader].process.pid, STALL_MS):
        stage.flows("while the leader's disk stalls")
        stage.flows("while it still does")


def _shrunk(stage: Stage) -> bool:
    return not stage.all_in_sync()


def _leader_seen_by_others(stage: Stage, old: int) -> int:
    """What the brokers on the other side say: the old leader itself does not know yet."""
    others = [broker.bootstrap for broker in stage.cluster.brokers if broker.node_id != old]
    with_others = AdminClient({"bootstrap.servers": ",".join(others), "log_level": 0})
    try:
        partition = with_others.list_topics("story", timeout=5).topics["story"].partitions[0]
    except (confluent_kafka.KafkaException, KeyError):
        return -1
    return int(partition.leader)
