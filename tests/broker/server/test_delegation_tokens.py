"""Delegation tokens on clusters of three brokers: each broker knows them, they outlive everything
but their own end, and nobody makes one of another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from bus.errors import ErrorCode
from bus.protocol.acls import Operation, Pattern, Permission, Resource
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.create_delegation_token import CreateDelegationTokenResponse
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.describe_delegation_token import DescribeDelegationTokenRequest
from bus.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.sasl_server import PLAIN, ScramMechanism
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster
from tests.broker.handlers.test_every_version import FrameSocket
from tests.broker.server.cluster_with_acls import cluster_with_acls, until
from tests.rotation import drawn
from tests.token_clients import create, log_in_by

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TOPIC = "of-alice"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": PLAIN,
    "sasl.mechanism.controller.protocol": PLAIN,
    "plain.sasl.jaas.config": (
        f'{MODULE} username="node" password="of-node" user_node="of-node" user_alice="of-alice"'
        ' user_bob="of-bob";'
    ),
    "super.users": "User:node",
    "delegation.token.secret.key": "of the cluster",
    "delegation.token.expiry.check.interval.ms": "500",
}


@pytest.fixture(scope="module", params=drawn("clusters with tokens", [KRAFT, ZOOKEEPER]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers; alice may do with her topic what she likes."""
    folder = tmp_path_factory.mktemp("tokens")
    with cluster_with_acls(folder, request.param, SETTINGS) as running:
        with closing(logged_in(running.bootstrap, "node")) as admin:
            made = admin.ask(
                ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, 1, 3)], 30_000)
            )
            assert made.topics[0].error_code == 0, made
            rule = AclCreation(
                Resource.TOPIC, TOPIC, Pattern.LITERAL, "User:alice", "*", Operation.ALL,
                Permission.ALLOW,
            )  # fmt: skip
            done = admin.ask(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([rule]))
            assert done.results[0].error_code == 0, done
        yield running


def logged_in(bootstrap: str, user: str) -> FrameSocket:
    """By its password."""
    wire = FrameSocket(bootstrap.split(",")[0])
    wire.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(PLAIN))
    token = f"\0{user}\0of-{user}".encode()
    answer = wire.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
    assert answer.error_code == 0, answer
    return wire


def created(bootstrap: str, user: str, *renewers: str) -> CreateDelegationTokenResponse:
    with closing(logged_in(bootstrap, user)) as wire:
        token = create(wire, *renewers)
    assert token.error_code == 0, token
    return token  # type: ignore[no-any-return]


def told(bootstrap: str, token: CreateDelegationTokenResponse) -> int:
    """The error of the owner's topic, or that of a login by this token."""
    for mechanism in ScramMechanism:
        with closing(FrameSocket(bootstrap)) as wire:
            answer = log_in_by(wire, token, mechanism)
            if answer.error_code:
                return int(answer.error_code)
            topics = MetadataRequest([MetadataRequestTopic(name=TOPIC)])
            error = wire.ask(ApiKey.METADATA, 12, topics).topics[0].error_code
            if error:
                return int(error)
    return 0


def expired(bootstrap: str, user: str, token: CreateDelegationTokenResponse, period_ms: int = -1) -> Any:
    with closing(logged_in(bootstrap, user)) as wire:
        request = ExpireDelegationTokenRequest(token.hmac, period_ms)
        return wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, request)


def listed(bootstrap: str, user: str) -> set[str]:
    with closing(logged_in(bootstrap, user)) as wire:
        answer = wire.ask(
            ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None)
        )
    assert answer.error_code == 0, answer
    return {one.token_id for one in answer.tokens}


def at_all(cluster: RunningCluster, what: str, token: CreateDelegationTokenResponse, error: int) -> None:
    for broker in cluster.brokers:
        until(f"{what} at {broker.bootstrap}",
              lambda at=broker.bootstrap: told(at, token) == error)  # type: ignore[misc]  # fmt: skip


REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED


def test_whichever_broker_is_asked_all_know_the_token_until_it_ends(cluster: RunningCluster) -> None:
    """Its owner may do by it what the owner may; and of no broker does one get another by it, though
    the one that decides is another one."""
    for broker in cluster.brokers:
        token = created(broker.bootstrap, "alice", "bob")
        at_all(cluster, "alice is let in", token, 0)
        for other in cluster.brokers:
            with closing(FrameSocket(other.bootstrap)) as wire:
                assert log_in_by(wire, token).error_code == 0
                refused = [
                    create(wire),
                    wire.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(token.hmac, 1)),
                    wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest(token.hmac, -1)),
                ]
            assert {one.error_code for one in refused} == {
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            }
        assert expired(broker.bootstrap, "node", token).error_code \
            == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH  # fmt: skip
        assert expired(broker.bootstrap, "bob", token).error_code == 0
        at_all(cluster, "alice is not let in", token, REFUSED)


def test_a_token_that_was_not_renewed_goes_by_itself_and_its_sessions_end(
    cluster: RunningCluster,
) -> None:
    """On every broker; the controller removes it."""
    token = created(cluster.bootstrap, "alice")
    at_all(cluster, "alice is let in", token, 0)
    assert expired(cluster.bootstrap, "alice", token, 5_000).error_code == 0
    until("the broker knows its end", lambda: _session_ms(cluster, token) <= 5_000)
    with closing(FrameSocket(cluster.brokers[0].bootstrap)) as wire:
        answer = log_in_by(wire, token)
        assert 0 < answer.session_lifetime_ms <= 5_000
        time.sleep(answer.session_lifetime_ms / 1000 + 0.5)
        with pytest.raises(ConnectionError):
            wire.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    at_all(cluster, "alice is not let in", token, REFUSED)
    for broker in cluster.brokers:
        until("the token is gone",
              lambda at=broker.bootstrap: token.token_id not in listed(at, "alice"))  # type: ignore[misc]  # fmt: skip


def _session_ms(cluster: RunningCluster, token: CreateDelegationTokenResponse) -> int:
    with closing(FrameSocket(cluster.brokers[0].bootstrap)) as wire:
        return int(log_in_by(wire, token).session_lifetime_ms)


def test_tokens_outlive_every_node_at_once(cluster: RunningCluster) -> None:
    """Killed, all of them; what had ended before does not come back."""
    kept, gone = (created(cluster.bootstrap, "alice") for _ in range(2))
    assert expired(cluster.bootstrap, "alice", gone).error_code == 0
    at_all(cluster, "alice is not let in", gone, REFUSED)
    for node_id in list(cluster.nodes):
        cluster.kill(node_id)
    with ThreadPoolExecutor() as threads:  # none serves before most of them are there
        list(threads.map(cluster.restart, list(cluster.nodes)))
    at_all(cluster, "alice is let in", kept, 0)
    at_all(cluster, "alice is not let in", gone, REFUSED)
    assert {kept.token_id, gone.token_id} & listed(cluster.bootstrap, "alice") == {kept.token_id}
    until("a new one is made", lambda: _makes_one(cluster))
    assert expired(cluster.bootstrap, "alice", kept).error_code == 0


def _makes_one(cluster: RunningCluster) -> bool:
    """The controller is there again."""
    with closing(logged_in(cluster.bootstrap, "alice")) as wire:
        return not create(wire).error_code


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker without a secret key."""
    given = {key: value for key, value in SETTINGS.items() if not key.startswith("delegation.")}
    running = start_broker(tmp_path_factory.mktemp("alone"), {
        **given, "listeners": "PLAINTEXT://127.0.0.1:0"})  # fmt: skip
    try:
        yield running
    finally:
        running.stop()


def test_without_a_secret_key_there_are_no_tokens(alone: RunningBroker) -> None:
    with closing(logged_in(alone.bootstrap, "alice")) as wire:
        answers = [
            create(wire),
            wire.ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, RenewDelegationTokenRequest(b"x", 1)),
            wire.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ExpireDelegationTokenRequest(b"x", -1)),
            wire.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, DescribeDelegationTokenRequest(None)),
        ]
    assert {one.error_code for one in answers} == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
