"""Three real brokers: they find each other, share their metadata, and survive each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.log.log_dir_files import new_id
from broker.server.process import format_directories
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.describe_cluster import DescribeClusterRequest
from bus.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bus.protocol.generated.init_producer_id import InitProducerIdRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from deploy.servers.databus import spawn_broker
from deploy.servers.databus_cluster import (
    RunningCluster,
    free_port,
    new_cluster_id,
    start_cluster,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_S = 90.0
BROKER = 4


@pytest.fixture(scope="module", params=[0, 3], ids=["combined", "separate"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers that are their own quorum, or with three controllers beside them."""
    directory = tmp_path_factory.mktemp("cluster")
    with start_cluster(directory, 3, separate_controllers=request.param) as running:
        yield running


def until(condition: Callable[[], bool], cluster: RunningCluster) -> None:
    """Polls; on failure the message has the brokers' logs."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, cluster.logs()
        time.sleep(0.05)


def answered(ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """The answer, with retries after retriable errors and lost connections: a slow machine may
    still hold an election."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            answer = ask()
            error = ErrorCode.of(code_of(answer))
        except BusError as lost:
            error = lost.code
        else:
            if not error.retriable:
                return answer
        assert time.monotonic() < deadline, error
        time.sleep(0.1)


def create(nodes: SyncClient, name: str, broker_id: int) -> None:
    """Creates a topic through one given broker, controller or not."""
    answer = answered(
        lambda: nodes.request_node(
            broker_id,
            ApiKey.CREATE_TOPICS,
            CreateTopicsRequest(
                topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=3)],
                timeout_ms=60_000,
            ),
        ),
        lambda answer: answer.topics[0].error_code,
    )
    made = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    assert answer.topics[0].error_code in made, answer


def in_sync(nodes: SyncClient, name: str, broker_id: int) -> list[int]:
    """The number of in-sync replicas of each partition at one broker; empty if it is
    unavailable."""
    try:
        answer = nodes.request_node(
            broker_id,
            ApiKey.METADATA,
            MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            ),
        )
    except BusError:
        return []
    topic = answer.topics[0]
    return [] if topic.error_code else [len(part.isr_nodes) for part in topic.partitions]


def test_any_broker_takes_a_request_for_the_controller(cluster: RunningCluster) -> None:
    """The request is forwarded in an envelope; every broker knows the topic soon."""
    with SyncClient(cluster.bootstrap, "test") as nodes:
        for broker_id in (1, 2, 3):
            create(nodes, f"forwarded-{broker_id}", broker_id)
        for asked in (1, 2, 3):
            for made in (1, 2, 3):
                until(lambda a=asked, m=made: in_sync(nodes, f"forwarded-{m}", a) == [3, 3, 3],
                      cluster)  # fmt: skip


def test_topics_come_into_being_by_use_on_every_broker(cluster: RunningCluster) -> None:
    """`__consumer_offsets` too, with the configured number of replicas."""
    with SyncClient(cluster.bootstrap, "test") as nodes:
        for broker_id in (1, 2, 3):
            name = f"by-use-{broker_id}"

            def made(broker_id: int = broker_id, name: str = name) -> bool:
                answer = nodes.request_node(
                    broker_id,
                    ApiKey.METADATA,
                    MetadataRequest(
                        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
                    ),
                )
                return bool(answer.topics[0].error_code == ErrorCode.NONE)

            until(made, cluster)

        def found() -> bool:
            answer = nodes.request_node(
                2,
                ApiKey.FIND_COORDINATOR,
                FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]),
            )
            return bool(answer.coordinators[0].error_code == ErrorCode.NONE)

        until(found, cluster)
        until(lambda: set(in_sync(nodes, "__consumer_offsets", 1)) == {3}, cluster)


def test_every_broker_hands_out_producer_ids_and_none_twice(cluster: RunningCluster) -> None:
    """Each broker uses more than one block."""
    with SyncClient(cluster.bootstrap, "test") as nodes:
        ids = [
            answered(
                lambda asked=broker_id: nodes.request_node(
                    asked,
                    ApiKey.INIT_PRODUCER_ID,
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
                ),
                lambda answer: answer.error_code,
            ).producer_id
            for _ in range(400)
            for broker_id in (1, 2, 3)
        ]
    assert min(ids) >= 0
    assert len(set(ids)) == len(ids)


def test_what_is_set_for_all_brokers_is_in_force_on_all(cluster: RunningCluster) -> None:
    """The setting takes effect without a restart."""
    with SyncClient(cluster.bootstrap, "test") as nodes:
        change = AlterableConfig(name="log.retention.ms", config_operation=0, value="123456789")
        resource = AlterConfigsResource(
            resource_type=BROKER, resource_name="", configs=[change]
        )
        answer = answered(
            lambda: nodes.request_node(
                3,
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                IncrementalAlterConfigsRequest(resources=[resource]),
            ),
            lambda answer: answer.responses[0].error_code,
        )
        assert answer.responses[0].error_code == ErrorCode.NONE

        def in_force(broker_id: int) -> bool:
            described = nodes.request_node(
                broker_id,
                ApiKey.DESCRIBE_CONFIGS,
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=BROKER,
                            resource_name=str(broker_id),
                            configuration_keys=["log.retention.ms"],
                        )
                    ]
                ),
            )
            return bool(described.results[0].configs[0].value == "123456789")

        for broker_id in (1, 2, 3):
            until(lambda asked=broker_id: in_force(asked), cluster)


def test_a_node_that_was_killed_or_stopped_comes_back(cluster: RunningCluster) -> None:
    """Covers each node of the cluster in turn; the others notice and accept it again."""
    name = f"survives-{time.monotonic_ns()}"
    with SyncClient(cluster.bootstrap, "test") as nodes:
        create(nodes, name, 1)
        for node_id in sorted(cluster.plan):
            end = cluster.kill if node_id % 2 else cluster.terminate
            end(node_id)
            asked = next(one for one in (1, 2, 3) if one != node_id)
            if node_id <= 3:
                until(lambda a=asked: in_sync(nodes, name, a) == [2, 2, 2], cluster)
            cluster.restart(node_id)
            until(lambda a=asked: in_sync(nodes, name, a) == [3, 3, 3], cluster)
    for running in cluster.nodes.values():
        assert "Traceback" not in running.log_path.read_text()


def test_at_their_own_listener_controllers_tell_of_controllers(cluster: RunningCluster) -> None:
    """KIP-919: a tool that can reach them needs no broker."""
    expected = {node.node_id for node in cluster.controllers}
    with SyncClient(cluster.controller_bootstrap, "test") as nodes:

        def controllers_listed() -> bool:
            answer = nodes.request(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(endpoint_type=2))
            found = {one.broker_id for one in answer.brokers}
            return found == expected and answer.controller_id in expected

        until(controllers_listed, cluster)


def test_a_quorum_may_begin_with_formatted_voters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`format --initial-controllers` on each node, bootstrap servers instead of voters."""
    cluster_id, clock = new_cluster_id(), RealClock()
    ports = {node_id: (free_port(), free_port()) for node_id in (1, 2, 3)}
    initial = ",".join(
        f"{node_id}@127.0.0.1:{port}:{new_id(clock)}" for node_id, (_, port) in ports.items()
    )
    begun = []
    try:
        for node_id, (port, controller_port) in ports.items():
            properties = {
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{controller_port}",
                "metrics.port": "-1",
                "controller.quorum.bootstrap.servers": ",".join(
                    f"127.0.0.1:{one}" for _, one in ports.values()
                ),
            }
            directory = tmp_path / str(node_id)
            assert (
                format_directories(
                    properties, directory / "logs", cluster_id, initial_controllers=initial
                )
                == 0
            )
            begun.append(spawn_broker(directory, properties, node_id=node_id))
        running = [one.wait_until_ready(DEADLINE_S) for one in begun]
        assert {one.cluster_id for one in running} == {cluster_id}
        with SyncClient(running[0].bootstrap, "test") as nodes:
            create(nodes, "dynamic", 2)
        assert [one.stop() for one in running] == [0, 0, 0]
    finally:
        for one in begun:
            one.kill()
    assert "formatted" in capsys.readouterr().out
