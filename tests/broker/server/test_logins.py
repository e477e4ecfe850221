"""Who may do what on a cluster where everybody logs in, brokers and controllers included; and a
broker among clients that never do."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer
from msgspec.structs import replace

from broker.clock.real import RealClock
from broker.log.log_dir_files import new_id
from broker.network.limits import MAX_UNKNOWN_CLIENTS
from bus.client.admin import queries
from bus.client.admin.metadata_log import MetadataLogReader
from bus.client.wire.channel import PeerChannel
from bus.client.wire.loop_ports import LoopClock, LoopConnector
from bus.client.wire.ports import addresses
from bus.client.wire.security import WireSecurity, wire_security
from bus.client.wire.sync_client import SyncClient, SyncConnection
from bus.errors import BusError, ErrorCode
from bus.protocol.acls import Operation, Pattern, Permission, Resource
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bus.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.security.sasl_server import PLAIN, ScramMechanism, salted
from bus.settings import BusSettings
from deploy.cluster.status import fetch_status
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster
from deploy.servers.kafka import run_tool
from tests.broker.server.cluster_with_acls import DEADLINE_S, cluster_with_acls, until
from tests.rotation import drawn

pytestmark = [pytest.mark.slow]

TOPIC = "guarded"
SCRAM = ScramMechanism.SCRAM_SHA_512
SESSION_MS = 4_000
SESSIONS_S = 14.0
"""Three of them, and a half."""
SALT = b"0123456789abcdef"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
NODE_PASSWORD, BOB_PASSWORD, ALICE_PASSWORD = "of-the-nodes", "of-bob", "of-alice"
JAAS = f'{MODULE} username="node" password="{NODE_PASSWORD}" user_node="{NODE_PASSWORD}"'
LOGINS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "plain.sasl.jaas.config": f'{JAAS} user_bob="{BOB_PASSWORD}";',
    "super.users": "User:node",
    "group.initial.rebalance.delay.ms": "0",
}
"""The listeners keep their names, so that nothing but these keys differs from other clusters."""


@pytest.fixture(scope="module", params=drawn("clusters with logins", [KRAFT, ZOOKEEPER]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers; nobody reaches one without a login."""
    folder = tmp_path_factory.mktemp("logins")
    with cluster_with_acls(folder, request.param, LOGINS) as running:
        yield running


def security(mechanism: str, user: str, password: str) -> WireSecurity:
    return wire_security(keys(mechanism, user, password))


def keys(mechanism: str, user: str, password: str) -> dict[str, str]:
    """Of librdkafka."""
    return {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password}  # fmt: skip


def connected(bootstrap: str, who: WireSecurity) -> SyncConnection:
    return SyncConnection(addresses(bootstrap)[0], "test", security=who)


NODE = security(PLAIN, "node", NODE_PASSWORD)
ALICE = keys(SCRAM.title, "alice", ALICE_PASSWORD)
BOB = keys(PLAIN, "bob", BOB_PASSWORD)


@pytest.mark.timeout(600)
def test_of_two_users_each_does_what_its_acls_say_on_every_broker(cluster: RunningCluster) -> None:
    """The topic has a replica everywhere: brokers and controllers let each other in. Whichever
    broker was asked to make the user, all let her in."""
    asked = cluster.brokers[-1].bootstrap
    with closing(connected(asked, NODE)) as admin:
        topic = CreatableTopic(TOPIC, 1, 3)
        made = admin.request(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], 30_000))
        assert made.topics[0].error_code == 0, made
        user = ScramCredentialUpsertion(
            "alice", SCRAM, 4096, SALT, salted(SCRAM, ALICE_PASSWORD, SALT, 4096)
        )
        request = AlterUserScramCredentialsRequest(upsertions=[user])
        altered = admin.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
        assert altered.results[0].error_code == 0, altered
        for kind, name in ((Resource.TOPIC, TOPIC), (Resource.GROUP, "readers")):
            rule = AclCreation(
                kind, name, Pattern.LITERAL, "User:alice", "*", Operation.ALL, Permission.ALLOW
            )
            assert admin.request(ApiKey.CREATE_ACLS, CreateAclsRequest([rule])).results[0] \
                .error_code == 0  # fmt: skip
    for broker in cluster.brokers:
        until("alice may log in", lambda at=broker.bootstrap: _told(at, ALICE) == 0)  # type: ignore[misc]
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert _told(broker.bootstrap, BOB) == denied
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **ALICE})
    failures: list[object] = []
    for number in range(100):
        producer.produce(TOPIC, str(number).encode(),
                         on_delivery=lambda error, _: failures.append(error))  # fmt: skip
    assert producer.flush(DEADLINE_S) == 0
    assert failures == [None] * 100
    assert _read(cluster.bootstrap) == {str(number) for number in range(100)}


def test_the_cluster_and_its_metadata_log_are_read_with_a_login(cluster: RunningCluster) -> None:
    """Of the metadata log the active controller is asked, on its own listener."""
    node = BusSettings(
        bootstrap_servers=cluster.bootstrap, librdkafka=keys(PLAIN, "node", NODE_PASSWORD)
    )
    assert len(fetch_status(node).alive) == 3
    with pytest.raises(BusError):
        fetch_status(replace(node, librdkafka={}))
    with SyncClient.of(node, "test") as nodes:
        if queries.quorum_or_none(nodes) is None:
            return  # the metadata are znodes
        log = MetadataLogReader(nodes)
        with closing(log):
            assert log.read().records[0].kind == "FeatureLevelRecord"


def _told(bootstrap: str, who: dict[str, str]) -> int:
    """The error of the topic, or that of the login."""
    try:
        with closing(connected(bootstrap, wire_security(who))) as client:
            return int(client.request(ApiKey.METADATA, _metadata()).topics[0].error_code)
    except BusError as error:
        return int(error.code)


def _metadata() -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False
    )


def _read(bootstrap: str) -> set[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers",
                         "auto.offset.reset": "earliest", **ALICE})  # fmt: skip
    found: set[str] = set()
    end = time.monotonic() + DEADLINE_S
    with closing(consumer):
        consumer.subscribe([TOPIC])
        while len(found) < 100 and time.monotonic() < end:
            for message in consumer.consume(100, 1.0):
                assert message.error() is None, message.error()
                found.add((message.value() or b"").decode())
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one broker; sessions last four seconds."""
    running = start_broker(tmp_path_factory.mktemp("alone"), {
        **LOGINS, "listeners": "PLAINTEXT://127.0.0.1:0", "connections.max.reauth.ms": str(SESSION_MS)})
    try:
        yield running.bootstrap
    finally:
        running.stop()


def test_a_session_that_was_not_renewed_ends_with_the_next_request(alone: str) -> None:
    with closing(connected(alone, NODE)) as client:
        client.request(ApiKey.METADATA, MetadataRequest())
        time.sleep(SESSION_MS / 1000 + 0.5)
        with pytest.raises(BusError) as ended:
            client.request(ApiKey.METADATA, MetadataRequest())
        assert ended.value.code is ErrorCode.NETWORK_EXCEPTION


def test_our_own_clients_log_in_anew_ahead_of_the_end_and_no_request_fails(alone: str) -> None:
    """Twice the connection is another one."""
    with SyncClient(alone, "test", librdkafka=BOB) as client:
        seen = set()
        end = time.monotonic() + DEADLINE_S
        while len(seen) < 3 and time.monotonic() < end:
            client.request(ApiKey.METADATA, MetadataRequest())
            seen.add(client._connections[addresses(alone)[0]])
            time.sleep(0.05)
        assert len(seen) == 3


def test_our_channel_logs_in_anew_ahead_of_the_end_and_no_request_fails(alone: str) -> None:
    connections = []

    async def ask() -> None:
        address = addresses(alone)[0]
        clock = LoopClock()
        channel = PeerChannel(
            LoopConnector(), clock, lambda: address, client_id="test", name="alone", login=NODE.login
        )
        channel.on_connected = lambda: connections.append(1)
        lost: list[int] = []
        channel.on_lost = lambda: lost.append(1)
        end = clock.monotonic() + DEADLINE_S
        while len(connections) < 3 and clock.monotonic() < end:
            await channel.request(ApiKey.METADATA, MetadataRequest(), timeout_ms=20_000)
            await clock.sleep(0.05)
        channel.close()
        assert lost == []

    asyncio.run(ask())
    assert len(connections) == 3


@pytest.mark.java
@pytest.mark.timeout(300)
def test_kafkas_java_client_renews_its_sessions_and_loses_nothing(tmp_path: Path) -> None:
    """It goes on for two sessions and a half, and has nothing to warn of. Ten seconds each, of which it
    renews in the last one and a half: a JVM that starts on a busy machine stands still for a while."""
    session_ms, records_a_s = 10_000, 50
    running = start_broker(tmp_path / "data", {
        **LOGINS, "listeners": "PLAINTEXT://127.0.0.1:0", "connections.max.reauth.ms": str(session_ms)})
    login = tmp_path / "client.properties"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} username="bob" password="{BOB_PASSWORD}";\n'
    )
    records = int(records_a_s * 2.5 * session_ms / 1000)
    try:
        done = run_tool(
            "kafka-producer-perf-test",
            ["--bootstrap-server", running.bootstrap, "--command-config", str(login), "--topic", "of-java",
             "--num-records", str(records), "--throughput", str(records_a_s), "--record-size", "10"],
            folder=tmp_path, timeout_s=DEADLINE_S * 2,
        )  # fmt: skip
    finally:
        running.stop()
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    assert f"{records} records sent" in said
    noted = [line for line in said.splitlines() if "WARN" in line or "ERROR" in line]
    assert [line for line in noted if "LEADER_NOT_AVAILABLE" not in line
            and "UNKNOWN_TOPIC" not in line] == []  # fmt: skip


@pytest.mark.timeout(300)
def test_librdkafka_renews_its_sessions_and_loses_nothing(alone: str) -> None:
    """It goes on for three sessions."""
    producer = Producer({"bootstrap.servers": alone, **BOB, "allow.auto.create.topics": True})
    failures: list[object] = []
    end = time.monotonic() + SESSIONS_S
    sent = 0
    while time.monotonic() < end:
        producer.produce("open", b"x", on_delivery=lambda error, _: failures.append(error))
        sent += 1
        producer.poll(0.05)
    assert producer.flush(DEADLINE_S) == 0
    assert failures == [None] * sent


@pytest.mark.timeout(300)
def test_a_first_user_of_scram_is_there_from_the_first_start_on(tmp_path: Path) -> None:
    """On a broker that asks everybody for SCRAM, and itself: nobody could make the user there. Over
    a restart; a user that is taken away does not come back with it."""
    folder, user = tmp_path / "data", "SCRAM-SHA-512=[name=root,password=of-root]"
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder),
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": SCRAM.title, "super.users": "User:root",
        "sasl.mechanism.inter.broker.protocol": SCRAM.title,
        "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
        'required username="root" password="of-root";',
    }  # fmt: skip
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    words = ["broker", "format", "--cluster-id", new_id(RealClock()), "--config", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "deploy", *words, "--add-scram", "-"], cwd=PROJECT_ROOT,
        input=f"{user}\n", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    root = security(SCRAM.title, "root", "of-root")

    def served() -> RunningBroker:
        running = start_broker(tmp_path / "process", properties)
        with pytest.raises(BusError):
            connected(running.bootstrap, security(SCRAM.title, "root", "guess"))
        return running

    running = served()
    try:
        with closing(connected(running.bootstrap, root)) as client:
            assert client.request(ApiKey.METADATA, MetadataRequest()).brokers
            taken = AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion("root", SCRAM)]
            )
            answer = client.request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, taken)
            assert answer.results[0].error_code == 0
    finally:
        running.stop()
    running = served()
    try:
        with pytest.raises(BusError):
            connected(running.bootstrap, root)
    finally:
        running.stop()


def half_open(bootstrap: str, count: int, stack: ExitStack) -> list[socket.socket]:
    """Connections whose clients send half a request and are silent."""
    at = addresses(bootstrap)[0]
    made = []
    for _ in range(count):
        one = stack.enter_context(socket.create_connection((at.host, at.port), DEADLINE_S))
        one.sendall(b"\0\0\0\x20\0\x11")
        made.append(one)
    return made


@pytest.mark.timeout(300)
def test_a_thousand_silent_clients_keep_nobody_out(alone: str) -> None:
    """The oldest of them are closed for the newest; who logs in is let in."""
    with ExitStack() as stack:
        silent = half_open(alone, MAX_UNKNOWN_CLIENTS + 20, stack)
        with closing(connected(alone, NODE)) as client:
            assert client.request(ApiKey.METADATA, MetadataRequest()).brokers
        silent[0].settimeout(DEADLINE_S)
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


@pytest.mark.timeout(300)
def test_wrong_logins_in_masses_stop_no_other_client(alone: str) -> None:
    """Each of them waits for its answer; requests of a client that is in are answered meanwhile."""
    stop, refused = Event(), []

    def storm() -> None:
        while not stop.is_set():
            try:
                connected(alone, security(SCRAM.title, "nobody", "guess")).close()
            except BusError as error:
                refused.append(error.code)

    threads = [Thread(target=storm, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        until("logins are refused", lambda: len(refused) > 20)
        slowest = 0.0
        for _ in range(50):
            began = time.monotonic()
            with closing(connected(alone, NODE)) as client:
                client.request(ApiKey.METADATA, MetadataRequest())
            slowest = max(slowest, time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join(DEADLINE_S)
    assert set(refused) == {ErrorCode.SASL_AUTHENTICATION_FAILED}
    print(f"the slowest login and request among {len(refused)} refused ones: {slowest:.3f} s")
    assert slowest < DEADLINE_S


def test_a_token_that_is_too_large_closes_its_connection(alone: str) -> None:
    """Before a login no client may send what it may afterwards."""
    at = addresses(alone)[0]
    with closing(socket.create_connection((at.host, at.port), DEADLINE_S)) as client:
        client.sendall((600_000).to_bytes(4, "big"))
        client.settimeout(DEADLINE_S)
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"sasl.enabled.mechanisms": "NTLM"}, "names NTLM; served are PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "useKeyTab=true keyTab="),
        ({"plain.sasl.jaas.config": f"{MODULE};"}, "but no user is named; set listener.name.plain"),
        ({"plain.sasl.jaas.config": "planted-secret"}, "must stand one of required"),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "asks for a login by PLAIN or"),
        ({"plain.sasl.jaas.config": f'{MODULE} user_a="planted-secret";'}, "must have username="),
        ({"listener.security.protocol.map": "PLAINTEXT:SASL_SSL"}, "a listener with TLS needs a"),
    ],
)
def test_a_listener_that_asks_for_what_is_not_served_does_not_start(
    properties: dict[str, str], said: str, tmp_path: Path
) -> None:
    """In a sentence that names the key, and no secret."""
    given = {**LOGINS, "listeners": "PLAINTEXT://127.0.0.1:0", **properties}
    with pytest.raises(BrokerStartError) as refused:
        start_broker(tmp_path, given).stop()
    assert said in str(refused.value)
    assert "planted-secret" not in str(refused.value)
