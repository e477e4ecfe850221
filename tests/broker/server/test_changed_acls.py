"""A changed ACL counts on every broker of a cluster, whoever was asked to change it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from bus.errors import ErrorCode
from bus.protocol.acls import Resource
from bus.protocol.apis import ApiKey
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster
from tests.broker.security.speakers import (
    ADMIN,
    CLIENT,
    DENY,
    Frames,
    acl,
    acls_filter,
    everything,
)
from tests.broker.server.cluster_with_acls import cluster_with_acls, until
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow]

ROUNDS = 5
TOPIC = "watched"
PROPERTIES = {"allow.everyone.if.no.acl.found": "true"}


@pytest.fixture(scope="module", params=drawn("changed ACLs", [KRAFT, ZOOKEEPER]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers that obey ACLs."""
    folder = tmp_path_factory.mktemp("acls")
    with cluster_with_acls(folder, request.param, PROPERTIES) as running:
        yield running


@pytest.fixture
def speakers(cluster: RunningCluster) -> Iterator[tuple[list[Frames], list[Frames]]]:
    """Administrator and client at each broker; the client may do everything, too."""
    with ExitStack() as stack:
        admins, clients = (
            [Frames(broker.bootstrap, who) for broker in cluster.brokers] for who in (ADMIN, CLIENT)
        )
        for frames in (*admins, *clients):
            stack.callback(frames.close)
        assert admins[0].create_acls([*everything(ADMIN), *everything()]) == {0}
        admins[0].ask(ApiKey.CREATE_TOPICS, 7, {"timeout_ms": 30_000, "topics": [
            {"name": TOPIC, "num_partitions": 1, "replication_factor": 3}]})  # fmt: skip
        _delay(clients, ErrorCode.NONE)
        yield admins, clients


@pytest.mark.timeout(600)
def test_a_changed_acl_counts_on_every_broker_soon_after_the_answer(
    speakers: tuple[list[Frames], list[Frames]],
) -> None:
    """Each broker has decided the same question before, and is asked to change an ACL in turn."""
    admins, clients = speakers
    delays: list[float] = []
    denial = acl(Resource.TOPIC, "DESCRIBE", DENY, name=TOPIC)
    for number in range(ROUNDS):
        admin = admins[number % len(admins)]
        assert admin.create_acls([denial]) == {0}
        delays.append(_delay(clients, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        only_this = acls_filter(resource_name_filter=TOPIC)
        removed = admin.ask(ApiKey.DELETE_ACLS, 3, {"filters": [only_this]})
        assert len(removed.filter_results[0].matching_acls) == 1
        delays.append(_delay(clients, ErrorCode.NONE))
    print(f"seconds until all brokers agree: {', '.join(f'{one:.3f}' for one in delays)}")


@pytest.mark.timeout(600)
def test_a_forwarded_request_has_the_rights_of_its_client_only(
    speakers: tuple[list[Frames], list[Frames]],
) -> None:
    """The brokers that forward it may do everything."""
    admins, clients = speakers
    assert admins[0].create_acls([acl(Resource.CLUSTER, "ALTER", DENY)]) == {0}
    for client in clients:
        until("the client may not alter the cluster", partial(_may_not_alter, client))


def _may_not_alter(client: Frames) -> bool:
    told = client.create_acls([acl(Resource.TOPIC, "READ")])
    return told == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


def _delay(clients: list[Frames], error: ErrorCode) -> float:
    """Seconds until each broker tells the client this of the topic."""
    began = time.monotonic()
    for client in clients:
        until(f"every broker says {error.name}", partial(_is_told, client, error))
    return time.monotonic() - began


def _is_told(client: Frames, error: ErrorCode) -> bool:
    request = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    return bool(client.ask(ApiKey.METADATA, 12, request).topics[0].error_code == error)
