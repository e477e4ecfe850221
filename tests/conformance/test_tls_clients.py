"""TLS beside Apache Kafka 4.4: the same clients get in, or are told the same.

Both servers have the same listeners, each with one certificate: a good one, one that has ended, one
of another host, and a good one that asks clients for theirs, or for a login.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AsyncKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError as PythonKafkaError

from deploy.errors import Unavailable
from deploy.servers.databus import BrokerStartError, start_broker
from deploy.servers.kafka import run_tool, start_kafka
from deploy.servers.process import free_port
from tests.certificates import Authority, KeyKind
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEADLINE_S = 60.0
PASSWORD = "of-the-city"
TOPIC = "seen"
PROTOCOLS = {"PLAIN": "PLAINTEXT", "GOOD": "SSL", "ENDED": "SSL", "ELSEWHERE": "SSL",
             "ASKING": "SSL", "LOGIN": "SASL_SSL"}  # fmt: skip


class Case(Enum):
    """A client, and the listener that it comes to."""

    GOOD = "GOOD"
    OLD_VERSION = "GOOD, by TLS 1.2"
    ENDED = "ENDED"
    ELSEWHERE = "ELSEWHERE"
    STRANGE_SERVER = "GOOD, of whose authority the client knows nothing"
    KNOWN = "ASKING, with a certificate"
    WITHOUT = "ASKING, without one"
    STRANGER = "ASKING, with one of another authority"
    LOGIN = "LOGIN"
    PLAIN_CLIENT = "GOOD, without TLS"
    TLS_CLIENT = "PLAIN, with TLS"

    @property
    def listener(self) -> str:
        return self.value.partition(",")[0]

    @property
    def is_let_in(self) -> bool:
        return self in (Case.GOOD, Case.OLD_VERSION, Case.KNOWN, Case.LOGIN)


class SecureServer(NamedTuple):
    """One that serves, by listener."""

    ports: dict[str, int]

    def address(self, case: Case) -> str:
        return f"127.0.0.1:{self.ports[case.listener]}"


class ClientSite:
    """Certificates of all who take part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.other = Authority(), Authority("another", KeyKind.RSA_2048)
        signed = self.authority.signed
        self.stores = {
            "good": signed("broker").store(folder, "good"),
            "ended": signed("broker", left=-timedelta(days=1)).store(folder, "ended"),
            "elsewhere": signed("broker", KeyKind.RSA_2048, places=["bus.example"]).store(
                folder, "elsewhere"
            ),
        }
        self.authority_file = self.authority.file(folder)
        self.other_file = self.other.file(folder, "other")
        self.known = signed("camera").files(folder, "known")
        self.known_store = signed("camera").store(folder, "known-store")
        self.stranger = self.other.signed("camera").files(folder, "stranger")
        self.stranger_store = self.other.signed("camera").store(folder, "stranger-store")

    def settings(self, ports: dict[str, int]) -> dict[str, str]:
        """Of both servers."""
        found = {
            "advertised.listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in ports.items()),
            "inter.broker.listener.name": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority_file),
            "listener.name.asking.ssl.client.auth": "required",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required"
                f' user_city="{PASSWORD}";'
            ),
        }
        for name in PROTOCOLS:
            store = self.stores.get(name.lower(), self.stores["good"])
            if name != "PLAIN":
                found[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(store)
        return found

    def librdkafka(self, case: Case) -> dict[str, str]:
        """How the client connects."""
        if case is Case.PLAIN_CLIENT:
            return {}
        authority = self.other_file if case is Case.STRANGE_SERVER else self.authority_file
        keys = {"security.protocol": "ssl", "ssl.ca.location": str(authority)}
        if case in (Case.KNOWN, Case.STRANGER):
            certificate, key = self.known if case is Case.KNOWN else self.stranger
            keys |= {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key)}
        if case is Case.LOGIN:
            keys |= {"security.protocol": "sasl_ssl", "sasl.mechanisms": "PLAIN",
                     "sasl.username": "city", "sasl.password": PASSWORD}  # fmt: skip
        if case is Case.OLD_VERSION:
            keys["ssl.cipher.suites"] = "ECDHE-ECDSA-AES128-GCM-SHA256"
        return keys

    def java(self, case: Case, folder: Path) -> Path:
        """A file for Kafka's own tools."""
        authority = self.other_file if case is Case.STRANGE_SERVER else self.authority_file
        keys = {"security.protocol": "SSL", "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority)}  # fmt: skip
        if case is Case.PLAIN_CLIENT:
            keys = {"default.api.timeout.ms": "5000", "request.timeout.ms": "3000"}
        if case is Case.TLS_CLIENT:
            keys |= {"default.api.timeout.ms": "5000", "request.timeout.ms": "3000"}
        if case in (Case.KNOWN, Case.STRANGER):
            store = self.known_store if case is Case.KNOWN else self.stranger_store
            keys |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
        if case is Case.OLD_VERSION:
            keys["ssl.enabled.protocols"] = "TLSv1.2"
        if case is Case.LOGIN:
            keys |= {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": (
                    "org.apache.kafka.common.security.plain.PlainLoginModule required "
                    f'username="city" password="{PASSWORD}";'
                ),
            }  # fmt: skip
        file = folder / "java.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
        return file


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> ClientSite:
    return ClientSite(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def ours(site: ClientSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    for attempt in range(5):
        ports = {name: free_port() for name in PROTOCOLS}
        try:
            running = start_broker(tmp_path_factory.mktemp("ours"), {
                **site.settings(ports), "group.initial.rebalance.delay.ms": "0",
                "listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in ports.items()),
                "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
            })  # fmt: skip
            break
        except BrokerStartError as error:
            if "cannot listen on" not in str(error) or attempt == 4:
                raise
    try:
        yield SecureServer(ports)
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kafka(site: ClientSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    ports, controller = {name: free_port() for name in PROTOCOLS}, free_port()
    listeners = {**ports, "CONTROLLER": controller}
    settings = {
        **site.settings(ports),
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in listeners.items()),
        "listener.security.protocol.map": ",".join(
            map(":".join, (PROTOCOLS | {"CONTROLLER": "PLAINTEXT"}).items())
        ),
    }
    # The port on which it is looked whether the server accepts is one of ours.
    try:
        server = start_kafka(
            tmp_path_factory.mktemp("kafka"), settings=settings, heap="512m", port=ports["PLAIN"]
        )
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield SecureServer(ports)


LET_IN = "let in"


def by_librdkafka(server: SecureServer, case: Case, site: ClientSite, folder: Path) -> str:
    """Writes a record and reads it."""
    errors: list[KafkaError] = []
    keys = {"bootstrap.servers": server.address(case), **site.librdkafka(case),
            "error_cb": errors.append, "logger": _silent()}  # fmt: skip
    producer = Producer(keys)
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        with suppress(Exception):
            producer.list_topics(timeout=0.5)
            break
        producer.poll(0)
        refused = [one for one in errors if one.code() in (KafkaError._SSL, KafkaError._TRANSPORT)]
        if refused:
            return _kind(str(refused[0].str()))
    else:
        return "no answer"
    producer.produce(TOPIC, b"by librdkafka")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**keys, "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([TOPIC])
        while time.monotonic() < until:
            message = consumer.poll(1)
            if message is not None and not message.error():
                return LET_IN
    finally:
        consumer.close()
    return "nothing to be read"


def _silent() -> logging.Logger:
    quiet = logging.getLogger("silent")
    quiet.disabled = True
    return quiet


def _kind(text: str) -> str:
    """What kind of refusal it is: which alert the server sends is up to its library, and whether
    the client reads it, or that the connection has ended, to the moment."""
    for words, kind in (
        ("certificate verify failed", "the client does not accept the certificate"),
        ("alert", "the server has refused"),
        ("client SSL authentication might be required", "the server has refused"),
        ("Disconnected", "the server has refused"),
        ("disconnected", "the server has refused"),
        ("unexpected eof", "the server has refused"),
        ("reset by peer", "the server has refused"),
        ("connecting to a PLAINTEXT broker listener", "not TLS"),
        ("wrong version number", "not TLS"),
    ):
        if words in text:
            return kind
    return text


def by_kafka_python(server: SecureServer, case: Case, site: ClientSite, folder: Path) -> str:
    """Writes a record and reads it."""
    keys = site.librdkafka(case)
    given = {
        "bootstrap_servers": server.address(case),
        "security_protocol": keys.get("security.protocol", "plaintext").upper(),
        "ssl_cafile": keys.get("ssl.ca.location"),
        "ssl_certfile": keys.get("ssl.certificate.location"),
        "ssl_keyfile": keys.get("ssl.key.location"),
        "ssl_ciphers": keys.get("ssl.cipher.suites"),
        "bootstrap_timeout_ms": 3000,
    }
    if case is Case.LOGIN:
        given |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "city",
                  "sasl_plain_password": PASSWORD}  # fmt: skip
    try:
        producer = KafkaProducer(**given)
        consumer = KafkaConsumer(**given, auto_offset_reset="earliest")
    except PythonKafkaError as error:
        return type(error).__name__
    try:
        producer.send(TOPIC, b"by kafka-python").get(DEADLINE_S)
        consumer.assign([TopicPartition(TOPIC, 0)])
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            if consumer.poll(1000):
                return LET_IN
    finally:
        producer.close()
        consumer.close()
    return "nothing to be read"


def by_aiokafka(server: SecureServer, case: Case, site: ClientSite, folder: Path) -> str:
    """Writes a record and reads it."""
    keys = site.librdkafka(case)
    given: dict[str, object] = {
        "bootstrap_servers": server.address(case),
        "security_protocol": keys.get("security.protocol", "plaintext").upper(),
    }
    if "ssl.ca.location" in keys:
        context = ssl.create_default_context(cafile=keys["ssl.ca.location"])
        if "ssl.certificate.location" in keys:
            context.load_cert_chain(keys["ssl.certificate.location"], keys["ssl.key.location"])
        if case is Case.OLD_VERSION:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        given["ssl_context"] = context
    if case is Case.LOGIN:
        given |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "city",
                  "sasl_plain_password": PASSWORD}  # fmt: skip
    return asyncio.run(asyncio.wait_for(_written_and_read(given), DEADLINE_S))


async def _written_and_read(given: dict[str, object]) -> str:
    producer = AIOKafkaProducer(**given)
    try:
        await producer.start()
        await producer.send_and_wait(TOPIC, b"by aiokafka")
    except AsyncKafkaError as error:
        return type(error).__name__
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(TOPIC, **given, auto_offset_reset="earliest")
    try:
        await consumer.start()
        await consumer.getone()
    finally:
        await consumer.stop()
    return LET_IN


def by_kcat(server: SecureServer, case: Case, site: ClientSite, folder: Path) -> str:
    """Writes a record and reads it."""
    file = folder / "kcat.conf"
    keys = site.librdkafka(case)
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
    command = ["kcat", "-F", str(file), "-b", server.address(case), "-m", "5"]
    try:
        asked = subprocess.run([*command, "-L"], capture_output=True, text=True, timeout=DEADLINE_S,
                               check=False)  # fmt: skip
    except FileNotFoundError:
        pytest.skip("kcat is not installed")
    if asked.returncode:
        kinds = {_kind(line) for line in asked.stderr.splitlines() if "FAIL" in line or "ERROR" in line}
        known = kinds & {"the client does not accept the certificate", "the server has refused", "not TLS"}
        return min(known) if known else asked.stderr
    sent = subprocess.run([*command, "-P", "-t", TOPIC], input="by kcat\n", text=True, check=False,
                          timeout=DEADLINE_S)  # fmt: skip
    got = subprocess.run([*command, "-C", "-t", TOPIC, "-e", "-q"], capture_output=True, check=False,
                         timeout=DEADLINE_S)  # fmt: skip
    return LET_IN if not sent.returncode and b"by kcat" in got.stdout else got.stderr.decode()


def by_java(server: SecureServer, case: Case, site: ClientSite, folder: Path) -> str:
    """Lists topics; where it gets in, it writes a record and reads it."""
    file = str(site.java(case, folder))
    reached = ["--bootstrap-server", server.address(case)]
    asked = run_tool("kafka-topics", [*reached, "--command-config", file, "--list"], folder=folder)
    if asked.returncode:
        said = (asked.stdout + asked.stderr).decode()
        for words in ("SslAuthenticationException", "TimeoutException", "DisconnectException"):
            if words in said:
                return words
        return said
    sent = run_tool("kafka-console-producer", [*reached, "--command-config", file, "--topic", TOPIC],
                    folder=folder, stdin=b"by java\n")  # fmt: skip
    assert sent.returncode == 0, sent.stderr.decode()
    got = run_tool(
        "kafka-console-consumer",
        [*reached, "--command-config", file, "--topic", TOPIC, "--from-beginning", "--max-messages",
         "1", "--timeout-ms", "30000"],
        folder=folder,
    )  # fmt: skip
    return LET_IN if b"by " in got.stdout else got.stderr.decode()


CLIENTS = {
    "librdkafka": by_librdkafka, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka,
    "kcat": by_kcat, "java": by_java,
}  # fmt: skip
OF_JAVA = {Case.GOOD, Case.ENDED, Case.ELSEWHERE, Case.STRANGE_SERVER, Case.WITHOUT, Case.LOGIN}
"""Its tools take seconds each."""
CELLS = [
    (client, case) for client in CLIENTS for case in Case if client != "java" or case in OF_JAVA
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("client", "case"), drawn("clients over TLS", CELLS), ids=lambda one: getattr(one, "name", one)
)
def test_a_client_gets_in_or_is_told_what_it_is_told_by_kafka(
    ours: SecureServer, kafka: SecureServer, client: str, case: Case, site: ClientSite, tmp_path: Path
) -> None:
    told = [CLIENTS[client](server, case, site, tmp_path) for server in (ours, kafka)]
    assert told[0] == told[1]
    assert (told[0] == LET_IN) is case.is_let_in
