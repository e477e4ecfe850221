"""A cluster on which everything is encrypted, brokers and controllers included; what a broker makes
of its settings, and of certificates that change while it runs."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster
from tests.broker.server.cluster_with_acls import DEADLINE_S, cluster_with_acls, until
from tests.broker.server.test_logins import LOGINS, NODE_PASSWORD
from tests.certificates import Authority, Identity, KeyKind
from tests.rotation import drawn

pytestmark = [pytest.mark.slow]

TOPIC = "encrypted"
SECRET = "planted-secret"
RULE = r"RULE:^CN=([^,]+).*$/$1/L"


class TlsSite:
    """An authority, and the certificates that it signed, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority()
        self.authority_file = self.authority.file(folder)

    def client(self, name: str | None, authority: Authority | None = None) -> dict[str, str]:
        """Of librdkafka."""
        keys = {"security.protocol": "ssl", "ssl.ca.location": str(self.authority_file)}
        if name is not None:
            certificate, key = (authority or self.authority).signed(name).files(self.folder, name)
            keys |= {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        return keys


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> TlsSite:
    return TlsSite(tmp_path_factory.mktemp("site"))


def mutual_tls(site: TlsSite, own: Identity) -> dict[str, str]:
    """Of a broker; the listeners keep their names, so that nothing but these keys differs."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(_written(site.folder / "node.p12", own.pkcs12(SECRET))),
        "ssl.keystore.password": SECRET,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(site.authority_file),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": RULE,
        "super.users": "User:node",
        "group.initial.rebalance.delay.ms": "0",
    }


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module", params=drawn("clusters with TLS", [KRAFT, ZOOKEEPER]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, site: TlsSite
) -> Iterator[RunningCluster]:
    """Three brokers; nobody reaches one without a certificate."""
    folder = tmp_path_factory.mktemp("tls-cluster")
    with cluster_with_acls(folder, request.param, mutual_tls(site, site.authority.signed("Node"))) as one:
        yield one


@pytest.mark.timeout(600)
def test_a_cluster_with_certificates_only_copies_records_and_survives_restarts(
    cluster: RunningCluster, site: TlsSite
) -> None:
    """Every broker in turn is killed, or stopped; each time all replicas come back in sync. A client
    with a certificate that no ACL names may do nothing; one without is not let in."""
    node = site.client("node")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **node})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(DEADLINE_S)
    produce(cluster.bootstrap, node, range(100))
    for number, broker_id in enumerate(sorted(cluster.nodes)):
        if number % 2:
            cluster.terminate(broker_id)
        else:
            cluster.kill(broker_id)
        produce(cluster.bootstrap, node, range(100 + 10 * number, 110 + 10 * number))
        cluster.restart(broker_id)
        until(f"all replicas are in sync after broker {broker_id} came back",
              lambda: in_sync(admin) == 3)  # fmt: skip
    assert read_all(cluster.bootstrap, node) == {str(number) for number in range(130)}
    stranger = Producer({"bootstrap.servers": cluster.bootstrap, **site.client("stranger")})
    failures: list[object] = []
    stranger.produce(TOPIC, b"x", on_delivery=lambda error, _: failures.append(error.name()))
    assert stranger.flush(DEADLINE_S) == 0
    assert failures == ["TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": cluster.bootstrap, **site.client(None)}).list_topics(timeout=3)


def in_sync(admin: AdminClient) -> int:
    try:
        found = admin.list_topics(TOPIC, timeout=5)
    except KafkaException:
        return 0
    return len(found.topics[TOPIC].partitions[0].isrs)


def produce(bootstrap: str, keys: dict[str, str], numbers: range) -> None:
    """Acknowledged by all."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **keys})
    failures: list[object] = []
    for number in numbers:
        producer.produce(TOPIC, str(number).encode(),
                         on_delivery=lambda error, _: failures.append(error))  # fmt: skip
    assert producer.flush(DEADLINE_S) == 0
    assert failures == [None] * len(numbers)


def read_all(bootstrap: str, keys: dict[str, str]) -> set[str]:
    """To the end of the topic as it is now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers",
                         "auto.offset.reset": "earliest", "enable.partition.eof": True, **keys})  # fmt: skip
    consumer.subscribe([TOPIC])
    found: set[str] = set()
    ends = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < ends:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                return found
            found.add((message.value() or b"").decode())
    finally:
        consumer.close()
    raise AssertionError(f"no end of the topic within {DEADLINE_S:.0f} s")


@pytest.mark.rotates("TLS of brokers")
@pytest.mark.timeout(300)
def test_a_new_certificate_and_a_new_authority_count_without_a_restart(site: TlsSite, tmp_path: Path) -> None:
    """Open connections go on. A file that cannot be used changes nothing, and is said."""
    store, trusted = tmp_path / "own.pem", tmp_path / "trusted.pem"
    other = Authority("another")
    first, second = site.authority.signed("first"), other.signed("second", KeyKind.RSA_2048)
    _written(store, first.key_pem() + first.chain_pem)
    _written(trusted, site.authority.pem)
    settings = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted),
        "ssl.client.auth": "required",
    }  # fmt: skip
    old = dialer(tmp_path, site.authority.signed("client"), site.authority, other)
    newcomer = dialer(tmp_path, other.signed("newcomer"), site.authority, other)
    with running(tmp_path / "broker", settings) as broker, closing(dialled(broker, old)) as kept:
        assert (shown(broker, old), shown(broker, newcomer)) == ("first", "")
        _written(store, b"no certificate")
        until("the broken file is logged", lambda: "stay in force" in log_of(broker))
        assert shown(broker, old) == "first"
        _written(store, second.key_pem() + second.chain_pem)
        _written(trusted, site.authority.pem + other.pem)
        until("both are taken", lambda: shown(broker, newcomer) == "second")
        assert shown(broker, old) == "second"
        kept.sendall(API_VERSIONS)
        assert kept.recv(4)


@pytest.mark.rotates("TLS of brokers")
@pytest.mark.timeout(300)
def test_certificates_of_a_listener_are_changed_by_its_configuration(
    site: TlsSite, tmp_path: Path
) -> None:
    """As Kafka changes them: for one listener, by a broker's dynamic keys. None is ever shown."""
    first = site.authority.signed("first").store(tmp_path, "first")
    second = tmp_path / "second.p12"
    _written(second, site.authority.signed("second").pkcs12(SECRET))
    client = dialer(tmp_path, site.authority.signed("client"), site.authority)
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(first),
                "ssl.key.password": "", "listener.name.ssl.ssl.truststore.password": SECRET}  # fmt: skip
    with running(tmp_path / "broker", settings) as broker:
        assert shown(broker, client) == "first"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **site.client(None)})
        changes = {"type": "PKCS12", "location": str(second), "password": SECRET}
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[
            ConfigEntry(f"listener.name.ssl.ssl.keystore.{name}", value,
                        incremental_operation=AlterConfigOpType.SET)
            for name, value in changes.items()
        ])  # fmt: skip
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
        until("the new store is used", lambda: shown(broker, client) == "second")
        asked = ConfigResource(ResourceType.BROKER, "1")
        described = admin.describe_configs([asked])[asked].result(DEADLINE_S)
        told = {name: entry.value for name, entry in described.items() if "ssl." in name}
        assert told["ssl.keystore.location"] == str(first)
        assert told["listener.name.ssl.ssl.keystore.password"] is None
        assert SECRET not in str(told) + log_of(broker)


API_VERSIONS = bytes.fromhex("0000000e00120000000000010004") + b"test"


def dialer(folder: Path, own: Identity, *authorities: Authority) -> ssl.SSLContext:
    """Of a client that trusts them."""
    context = ssl.create_default_context(cadata="".join(one.pem.decode() for one in authorities))
    context.load_cert_chain(*own.files(folder, "dialer"))
    return context


def dialled(broker: RunningBroker, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = broker.bootstrap.rpartition(":")
    raw = socket.create_connection((host, int(port)), DEADLINE_S)
    try:
        return context.wrap_socket(raw, server_hostname=host)
    except OSError:
        raw.close()
        raise


def shown(broker: RunningBroker, context: ssl.SSLContext) -> str:
    """The name in the broker's certificate; empty where it does not let us in."""
    try:
        with closing(dialled(broker, context)) as client:
            client.sendall(API_VERSIONS)
            if not client.recv(4):
                return ""
            found = client.getpeercert() or {}
    except OSError:
        return ""
    return str(dict(part[0] for part in found["subject"])["commonName"])  # type: ignore[misc]


def log_of(broker: RunningBroker) -> str:
    return "".join(path.read_text("utf-8") for path in broker.data_dir.rglob("broker.log"))


@contextmanager
def running(folder: Path, properties: dict[str, str]) -> Iterator[RunningBroker]:
    """A broker whose one listener is of TLS."""
    broker = start_broker(folder, {
        "listeners": "SSL://127.0.0.1:0", "inter.broker.listener.name": "SSL", **properties})  # fmt: skip
    try:
        yield broker
    finally:
        broker.stop()


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no certificate": ({}, "ssl.keystore.location: a listener with TLS needs a certificate"),
    "Kafka's default": (
        {"ssl.keystore.location": "own.jks"},
        "keytool -importkeystore -srckeystore own.jks -destkeystore own.jks.p12",
    ),
    "another kind": (
        {"ssl.keystore.location": "own.x", "ssl.keystore.type": "BKS"}, "BKS is not served",
    ),
    "no file": (
        {"ssl.keystore.location": "/nowhere/own.p12", "ssl.keystore.type": "PKCS12"},
        "/nowhere/own.p12: it cannot be read: No such file",
    ),
    "no suite": ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA256"}, "TLS_RSA_WITH_NULL_SHA256 is not"),
    "no version": (
        {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"},
        "no version is left",
    ),
    "a suite of TLS 1.3 that nobody would get": (
        {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"},
        "TLS_AES_256_GCM_SHA384 must be among those of TLS 1.3",
    ),
    "an old version": ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols"),
    "an answer that there is not": ({"ssl.client.auth": "maybe"}, "ssl.client.auth"),
    "whose certificates": ({"ssl.client.auth": "required"}, "nothing says whose certificates"),
    "no rule": ({"ssl.principal.mapping.rules": "RULE:CN"}, "does not begin with DEFAULT"),
}  # fmt: skip


@pytest.mark.parametrize("name", drawn("wrong settings of TLS", list(WRONG)))
def test_what_cannot_be_used_keeps_a_broker_from_starting(
    name: str, site: TlsSite, tmp_path: Path
) -> None:
    """In a sentence that names the key, and no secret."""
    properties, said = WRONG[name]
    good = {}
    if not any("keystore" in key for key in properties) and properties:
        good = {"ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(site.authority.signed("own").store(tmp_path, "own"))}  # fmt: skip
    given = {"ssl.keystore.password": SECRET, **good, **properties}
    with pytest.raises(BrokerStartError) as refused, running(tmp_path / "broker", given):
        pass
    assert said in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.rotates("TLS of brokers")
@pytest.mark.timeout(300)
def test_brokers_and_controllers_log_in_at_each_other_inside_tls(
    site: TlsSite, tmp_path: Path
) -> None:
    """SASL_SSL everywhere: what a client writes is copied by all."""
    store = site.authority.signed("node").store(tmp_path, "node")
    properties = {
        **LOGINS,
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(site.authority_file),
    }
    keys = {
        "security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "node",
        "sasl.password": NODE_PASSWORD, "ssl.ca.location": str(site.authority_file),
    }  # fmt: skip
    with cluster_with_acls(tmp_path / "cluster", KRAFT, properties) as running_cluster:
        admin = AdminClient({"bootstrap.servers": running_cluster.bootstrap, **keys})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(DEADLINE_S)
        produce(running_cluster.bootstrap, keys, range(100))
        until("all have a copy", lambda: in_sync(admin) == 3)
