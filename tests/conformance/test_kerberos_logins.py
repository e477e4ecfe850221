"""Logins by Kerberos with a KDC of MIT, beside Apache Kafka 4.4: who gets in, as whom, and what the
others are told. Skipped, loudly, where Kerberos cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAuthorizationFailedError

from broker.config.key import ConfigError
from broker.config.views import BrokerConfig
from broker.server.roles import roles_of
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from bus.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest
from bus.security.gssapi_sasl import GssContext
from bus.security.java_config import java_config
from bus.security.kerberos import TicketSource
from deploy.errors import Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import BrokerStartError, start_broker
from deploy.servers.databus_cluster import KRAFT, start_cluster
from deploy.servers.kafka import run_tool, start_kafka
from deploy.servers.process import free_port
from deploy.setup.packages import install
from tests.broker.handlers.test_every_version import FrameSocket
from tests.kerberos_realm import HOST, REALM, SERVICE, KerberosRealm, running_realm
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
RULES = "RULE:[1:$1](camera.*)s/camera/device/,DEFAULT"
NODE = f"{SERVICE}/{HOST}@{REALM}"
CAMERA, GUEST = f"camera-1@{REALM}", f"guest@{REALM}"
DEADLINE_S = 60.0
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
Keys = dict[str, str]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as running:
        for principal in (NODE, CAMERA, GUEST):
            running.add(principal.partition("@")[0])
        yield running


def node_keys(keytab: Path, prefix: str = "") -> Keys:
    """Of a broker whose one listener asks for Kerberos, through which it logs in at itself."""
    return {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.principal.to.local.rules": RULES,
        f"listener.name.{prefix or 'sasl_plaintext'}.gssapi.sasl.jaas.config": (
            f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{NODE}";'
        ),
        "super.users": f"User:{SERVICE};User:device-1",
    }


@pytest.fixture(scope="module")
def ours(realm: KerberosRealm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    port = free_port()
    running = start_broker(tmp_path_factory.mktemp("ours"), {
        **node_keys(realm.keytab(NODE)), "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    })  # fmt: skip
    try:
        yield f"{HOST}:{port}"
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kafka(realm: KerberosRealm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    try:
        server = start_kafka(
            tmp_path_factory.mktemp("kafka"), heap="512m", protocol="SASL_PLAINTEXT", port=port,
            settings={
                **node_keys(realm.keytab(NODE)),
                "advertised.listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:{SERVICE};User:device-1;User:ANONYMOUS",
            },
        )  # fmt: skip
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield f"{HOST}:{port}"


def keys_of(realm: KerberosRealm, principal: str, **more: str) -> Keys:
    """Of librdkafka."""
    return {
        "security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE, "sasl.kerberos.principal": principal,
        "sasl.kerberos.keytab": str(realm.keytab(principal)),
        **{name.replace("_", "."): text for name, text in more.items()},
    }  # fmt: skip


def created(topic: str, partitions: int = 1, replicas: int = 1) -> CreateTopicsRequest:
    one = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas)
    return CreateTopicsRequest(topics=[one], timeout_ms=60_000)


def create_topic(address: str, keys: Keys, topic: str) -> int:
    """By our own client; the error code. Raises BusError."""
    with SyncClient(address, "kerberos", librdkafka=keys) as client:
        return int(client.request(ApiKey.CREATE_TOPICS, created(topic)).topics[0].error_code)


def by_own_client(address: str, keys: Keys, topic: str, folder: Path) -> bool:
    error = create_topic(address, keys, topic)
    assert error in (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return not error


def by_java(address: str, keys: Keys, topic: str, folder: Path) -> bool:
    """As Spark's connector is configured."""
    file = folder / "java.properties"
    said = java_config(keys, {}, lambda path: Path(path).read_text("ascii"))
    file.write_text("".join(f"{key}={text}\n" for key, text in said.items()), "utf-8")
    done = run_tool("kafka-topics", [
        "--bootstrap-server", address, "--command-config", str(file), "--create", "--topic", topic,
        "--partitions", "1", "--replication-factor", "1"], folder=folder)  # fmt: skip
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 0 or "TopicAuthorizationException" in told, told
    return done.returncode == 0


def by_kafka_python(address: str, keys: Keys, topic: str, folder: Path) -> bool:
    """With the ticket that `kinit` gets."""
    get_ticket(keys)
    with closing(KafkaAdminClient(
        bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name=SERVICE,
    )) as client:  # fmt: skip
        try:
            client.create_topics([NewTopic(topic, 1, 1)])
        except TopicAuthorizationFailedError:
            return False
    return True


def get_ticket(keys: Keys) -> None:
    words = ["kinit", "-k", "-t", keys["sasl.kerberos.keytab"], keys["sasl.kerberos.principal"]]
    if shutil.which("kinit") is None and not install(["krb5-user"], ["krb5-workstation"]):
        pytest.skip("kinit cannot be had (Debian: apt-get install krb5-user)")
    subprocess.run(words, check=True, capture_output=True, timeout=DEADLINE_S)


def by_kcat(address: str, keys: Keys, topic: str, folder: Path) -> bool:
    """With librdkafka of Debian, which runs `kinit`: it gets in, and may see the topic or not."""
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    get_ticket(keys)
    if not any(Path("/usr/lib").glob("**/sasl2/libgssapiv2.so*")):
        install(["libsasl2-modules-gssapi-mit"], ["cyrus-sasl-gssapi"])
    file = folder / "kcat.conf"
    file.write_text("".join(f"{key}={text}\n" for key, text in keys.items()), "utf-8")
    done = subprocess.run(
        ["kcat", "-F", str(file), "-b", address, "-L", "-t", topic, "-m", "30"],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    if "No provider for SASL mechanism" in done.stderr:
        pytest.skip("kcat has no Kerberos (Debian: apt-get install libsasl2-modules-gssapi-mit)")
    assert done.returncode == 0, done.stderr
    return f'topic "{topic}" with 1 partitions' in done.stdout


CLIENTS: dict[str, Callable[[str, Keys, str, Path], bool]] = {
    "own": by_own_client, "java": by_java, "kafka-python": by_kafka_python, "kcat": by_kcat,
}  # fmt: skip


@pytest.mark.parametrize("client", drawn("clients that log in by Kerberos", list(CLIENTS)))
def test_each_client_is_the_user_of_its_ticket(
    realm: KerberosRealm, ours: str, kafka: str, client: str, tmp_path: Path
) -> None:
    """By the rules: `camera-1` is `device-1`, who may do everything; the guest may do nothing."""
    for name, address in (("ours", ours), ("kafka", kafka)):
        topic = f"{client}-{name}"
        if client == "kcat":
            assert create_topic(address, keys_of(realm, CAMERA), topic) == 0
        assert CLIENTS[client](address, keys_of(realm, CAMERA), topic, tmp_path)
        assert not CLIENTS[client](address, keys_of(realm, GUEST), f"{topic}-2", tmp_path)


def test_librdkafkas_package_for_python_has_no_kerberos(realm: KerberosRealm) -> None:
    """As `docs/security.md` says; when this fails, edge and dispatcher can log in by Kerberos, too."""
    with pytest.raises(KafkaException, match="No provider for SASL mechanism GSSAPI"):
        Producer({"bootstrap.servers": "127.0.0.1:1", **keys_of(realm, CAMERA)})


def refusal(address: str, keys: Keys) -> str:
    with pytest.raises(BusError) as refused:
        create_topic(address, keys, "never")
    return str(refused.value)


def test_our_client_says_why_it_gets_no_ticket(
    realm: KerberosRealm, ours: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keytab of former keys, none, somebody else's; a service that there is not; a ticket that has
    ended, and none."""
    former = tmp_path / "former.keytab"
    realm.add("former", keytab=former)
    realm.export("former", tmp_path / "new.keytab")
    keys = keys_of(realm, CAMERA)
    nobody = f"nobody@{REALM}"
    for changed, words in (
        ({"sasl.kerberos.keytab": str(former), "sasl.kerberos.principal": f"former@{REALM}"},
         "Preauthentication failed"),
        ({"sasl.kerberos.keytab": str(tmp_path / "none")}, "is no file"),
        ({"sasl.kerberos.principal": nobody}, f"No key table entry found for {nobody}"),
        ({"sasl.kerberos.service.name": "nosuch"}, f"Server nosuch/{HOST}@{REALM} not found"),
    ):  # fmt: skip
        told = refusal(ours, keys | changed)
        assert words in told, told
        assert "no Kerberos ticket for" in told, told
    without = {key: text for key, text in keys.items() if not key.endswith(("keytab", "principal"))}
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    assert "of kinit's ticket" in refusal(ours, without)
    realm.run("kinit", "-l", "2s", "-k", "-t", str(realm.keytab(CAMERA)), CAMERA)
    end = time.monotonic() + DEADLINE_S
    while subprocess.run(["klist", "-s"], check=False, timeout=DEADLINE_S).returncode == 0:
        assert time.monotonic() < end, "a ticket for two seconds does not end"
        time.sleep(0.1)
    assert "expired" in refusal(ours, without)
    realm.run("kinit", "-k", "-t", str(realm.keytab(CAMERA)), CAMERA)
    assert create_topic(ours, without, "by-kinit") == 0


BY_KINIT = """
import sys
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError
keys = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}
try:
    with SyncClient(sys.argv[1], "off", librdkafka=keys) as client:
        client.supports(0)
    print("let in")
except BusError as error:
    print(error)
"""


def test_a_client_whose_clock_is_off_by_an_hour_is_told_what_kafka_tells(
    realm: KerberosRealm, ours: str, kafka: str
) -> None:
    """With a ticket that was right; four minutes are borne, as with any server of Kerberos."""
    if shutil.which("faketime") is None and not install(["faketime"], ["libfaketime"]):
        pytest.skip("faketime cannot be had (Debian: apt-get install faketime)")
    get_ticket(keys_of(realm, CAMERA))
    for address in (ours, kafka):
        for off, words in (("+4m", "let in"), ("+1h", INVALID)):
            done = subprocess.run(
                ["faketime", "-f", off, sys.executable, "-c", BY_KINIT, address], cwd=PROJECT_ROOT,
                capture_output=True, text=True, timeout=DEADLINE_S, check=True,
            )  # fmt: skip
            assert words in done.stdout, (address, done.stdout)


class RawLogin(FrameSocket):
    """One login, token by token."""

    def begin(self) -> None:
        assert self.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest("GSSAPI")).error_code == 0

    def say(self, token: bytes) -> tuple[int, str | None, bytes]:
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(token))
        return answer.error_code, answer.error_message, bytes(answer.auth_bytes)

    def offered(self, context: GssContext) -> None:
        """Up to the server's offer, which is no layer."""
        self.begin()
        _, _, token = self.say(context.step(None))
        while not context.is_complete:
            _, _, token = self.say(context.step(token))
        assert context.unwrap(token)[0] & 1


def test_whoever_asks_for_more_than_was_offered_is_told_what_kafka_tells(
    realm: KerberosRealm, ours: str, kafka: str
) -> None:
    """No context, one that was cut, a layer of SASL, a choice that nobody has protected. Whomever a
    client asks to be, it is its ticket's owner."""
    source = TicketSource(SERVICE, CAMERA, str(realm.keytab(CAMERA)))
    guest = TicketSource(SERVICE, GUEST, str(realm.keytab(GUEST)))
    told: dict[str, list[tuple[int, str | None, bytes]]] = {}
    for name, address in (("ours", ours), ("kafka", kafka)):
        answers = told[name] = []
        for first in (b"", b"no token", bytes(1000), guest.initiate(HOST).step(None)[:-7]):
            with closing(RawLogin(address)) as raw:
                raw.begin()
                answers.append(raw.say(first))
        for choice in (b"\x04\0\0\0", b"\x02\0\x10\0"):
            with closing(RawLogin(address)) as raw:
                context = source.initiate(HOST)
                raw.offered(context)
                answers.append(raw.say(context.wrap(choice)))
        with closing(RawLogin(address)) as raw:
            raw.offered(source.initiate(HOST))
            answers.append(raw.say(b"\x01\0\0\0not protected"))
    refused = (ErrorCode.SASL_AUTHENTICATION_FAILED.value, INVALID, b"")
    assert told["ours"] == [refused] * 7
    assert told["kafka"] == told["ours"]
    with closing(RawLogin(ours)) as raw:  # Kafka hangs up without an answer
        context = source.initiate(HOST)
        raw.offered(context)
        assert raw.say(context.wrap(b"\x01\0")) == refused
    for address in (ours, kafka):
        for asked in (b"", b"device-1", NODE.encode(), b"\xff\0"):
            with closing(RawLogin(address)) as raw:
                context = guest.initiate(HOST)
                raw.offered(context)
                assert raw.say(context.wrap(b"\x01\0\0\0" + asked))[0] == 0
                answer = raw.ask(ApiKey.CREATE_TOPICS, 5, created("asked"))
                assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_replaced_keytab_counts_at_the_next_login(realm: KerberosRealm, tmp_path: Path) -> None:
    """Without a restart; until then the broker refuses tickets that it cannot read, as Kafka does."""
    keytab, port = tmp_path / "node.keytab", free_port()
    node = f"{SERVICE}/127.0.0.1"
    realm.add(node, keytab=keytab)
    kept = keytab.read_bytes()
    jaas = f'{MODULE} required keyTab="{keytab}" principal="{node}@{REALM}";'
    running = start_broker(tmp_path / "broker", {
        **node_keys(keytab), "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas,
    })  # fmt: skip
    try:
        realm.export(node, tmp_path / "newer.keytab")
        keys = keys_of(realm, GUEST)
        assert INVALID in refusal(running.bootstrap, keys)
        keytab.write_bytes((tmp_path / "newer.keytab").read_bytes())
        assert create_topic(running.bootstrap, keys, "renewed") == 0
        assert kept != keytab.read_bytes()
    finally:
        running.stop()


def test_brokers_and_controllers_log_in_at_each_other(realm: KerberosRealm, tmp_path: Path) -> None:
    """A record is acknowledged when the other broker has fetched it."""
    keytab = realm.keytab(NODE)
    keys = node_keys(keytab, "plaintext")
    listeners = ("PLAINTEXT", "CONTROLLER")
    cluster = start_cluster(tmp_path, 2, KRAFT, {
        **keys, "sasl.mechanism.controller.protocol": "GSSAPI",
        "listener.name.controller.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.controller.gssapi.sasl.jaas.config":
            keys["listener.name.plaintext.gssapi.sasl.jaas.config"],
        "listener.security.protocol.map": ",".join(f"{one}:SASL_PLAINTEXT" for one in listeners),
    }, hosts=(HOST, HOST))  # fmt: skip
    login = keys_of(realm, CAMERA)
    with cluster:
        with SyncClient(cluster.bootstrap, "k", librdkafka=login) as client:
            made = client.request(ApiKey.CREATE_TOPICS, created("both", 1, 2))
            assert made.topics[0].error_code == 0
        get_ticket(login)
        with closing(KafkaProducer(
            bootstrap_servers=cluster.bootstrap, security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI", sasl_kerberos_service_name=SERVICE, acks="all",
        )) as producer:  # fmt: skip
            assert producer.send("both", b"replicated").get(DEADLINE_S).offset == 0


def test_a_broker_that_cannot_serve_kerberos_says_so_and_does_not_start(
    realm: KerberosRealm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install, which file, which rule."""
    keys = node_keys(realm.keytab(NODE)) | {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    jaas = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    for changed, words in (
        ({jaas: f"{MODULE} required;"}, "keyTab="),
        ({jaas: keys[jaas].replace(".keytab", ".nowhere")}, "is no file"),
        ({jaas: keys[jaas].replace(NODE, f"other/host@{REALM}")}, "other/host"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:[x]"}, "RULE:"),
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name must be set"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            roles_of(BrokerConfig.from_mapping(keys | changed))
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "gssapi.py").write_text("raise ImportError('it is not installed')\n", "ascii")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    with pytest.raises(BrokerStartError, match=r"-r requirements-kerberos\.lock"):
        start_broker(tmp_path / "without", keys)
