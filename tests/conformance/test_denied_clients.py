"""What a client is told that may not do what it asks for, beside Apache Kafka 4.4.

Every API that a client or a node may send, under one set of ACLs after the other: the same requests
go to Kafka, to a broker of ours under KRaft, and to one under ZooKeeper, and the errors of their
answers, with the names around them, are compared.

The ACLs are about the client's address. The nodes and the administrator, who has the same principal,
speak from another one and may do everything. Clients that have names: `test_denied_users`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from broker.config.keys_controller import STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import SERVED
from bus.errors import ErrorCode
from bus.protocol.acls import AclBinding
from deploy.errors import Unavailable
from deploy.servers.databus_cluster import start_cluster
from deploy.servers.kafka import start_kafka
from deploy.servers.zookeeper import start_zookeeper
from tests.broker.security.speakers import ADMIN, CLIENT, Frames, acls_filter, everything
from tests.conformance.denied_requests import (
    ELSEWHERE,
    GONE,
    OF_NODES,
    OF_ZOOKEEPER_NODES,
    ONLY_DENIED,
    TOPIC,
    Cluster,
    cases_about,
    differences,
    requests,
)
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
CASES = list(cases_about(CLIENT))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Cluster, Frames, Frames]]]:
    """Apache Kafka, and ours under both controllers, each with the client and how it speaks to nodes."""
    folder = tmp_path_factory.mktemp("denied")
    standard = {**SETTINGS, "authorizer.class.name": STANDARD_AUTHORIZER}
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(start_kafka(folder / "kafka", settings=standard, heap="384m"))
        except Unavailable as missing:
            pytest.skip(f"Apache Kafka 4.4: {missing}")
        kraft = stack.enter_context(start_cluster(folder / "kraft", 1, properties=standard))
        zookeeper = stack.enter_context(start_zookeeper(folder / "zookeeper"))
        old = stack.enter_context(start_cluster(
            folder / "broker", 1, "zookeeper", {**SETTINGS, "authorizer.class.name": ZOOKEEPER_AUTHORIZER},
            zookeeper_connect=zookeeper.address,
        ))  # fmt: skip
        listeners = (kafka.folder / "server.properties").read_text(encoding="utf-8")
        [controller] = set(re.findall(r"CONTROLLER://([\d.]+:\d+)", listeners))

        def opened(address: str, nodes_speak_at: str, served: ListenerType, of_nodes: ListenerType
                   ) -> tuple[Cluster, Frames, Frames]:  # fmt: skip
            admin, client, node = (
                stack.enter_context(closing(Frames(at, who)))
                for at, who in ((address, ADMIN), (address, CLIENT), (nodes_speak_at, CLIENT))
            )
            cluster = Cluster(admin, served, of_nodes, acls_filter(host_filter=CLIENT.address))
            cluster.create_acls(everything(ADMIN))
            return cluster, client, node

        own, nodes, both = ListenerType.BROKER, ListenerType.CONTROLLER, ListenerType.ZOOKEEPER_BROKER
        yield {
            "kafka": opened(kafka.address, controller, own, nodes),
            "kraft": opened(kraft.bootstrap, kraft.controller_bootstrap, own, nodes),
            "zookeeper": opened(old.bootstrap, old.bootstrap, both, both),
        }


@pytest.mark.parametrize(("case", "acls"), drawn("denied clients", CASES, 8))
def test_a_refused_client_is_told_what_kafka_tells_it(
    case: str, acls: list[AclBinding], clusters: dict[str, tuple[Cluster, Frames, Frames]]
) -> None:
    """Also what it is not told of."""
    number = [name for name, _ in CASES].index(case)
    told = {}
    for name, (cluster, client, node) in clusters.items():
        cluster.prepare(TOPIC, GONE)
        cluster.set_acls(acls)
        sent = requests(cluster.id_of(TOPIC), f"g{number}")
        told[name] = cluster.answers(client, node, sent, acls)
    wrong = differences(case, told)
    assert not wrong, wrong


def test_a_stranger_is_no_broker_of_a_cluster_under_zookeeper(
    clusters: dict[str, tuple[Cluster, Frames, Frames]]
) -> None:
    """Kafka 4.4 has none of these APIs: each is refused as a whole."""
    cluster, client, _ = clusters["zookeeper"]
    cluster.prepare()
    cluster.set_acls([])
    told = dict(cluster.denied_zookeeper_nodes(client))
    refused = {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name}
    assert told == dict.fromkeys(told, refused)


def test_no_api_is_left_out() -> None:
    """A later one brings its row."""
    asked = {key for key, *_ in requests(bytes(16), "g")}
    assert asked | {*ONLY_DENIED, *OF_NODES, *OF_ZOOKEEPER_NODES, *ELSEWHERE} == set(SERVED)
