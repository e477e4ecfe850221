"""The suites of TLS 1.3 one by one, beside Apache Kafka 4.4: the same clients get in.

Both servers have a listener for each set of suites in `ssl.cipher.suites`. Clients: OpenSSL's and Java's
with one suite each, and librdkafka, which offers all three and cannot be told otherwise.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from deploy.errors import Unavailable
from deploy.servers.databus import BrokerStartError, start_broker
from deploy.servers.databus_cluster import PORT_TAKEN, free_port
from deploy.servers.kafka import run_tool, start_kafka
from tests.certificates import Authority
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

AES_256, AES_128, CHACHA = SUITES = (
    "TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256",
)  # fmt: skip
OF_TLS_1_2 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
NAMED = {
    "ANY": (), "ALL": SUITES, "ONE": (AES_256,), "AES": (AES_256, AES_128),
    "STRONG": (AES_256, CHACHA), "OLD": (AES_256, OF_TLS_1_2), "BEFORE": (OF_TLS_1_2,),
}  # fmt: skip
"""Listeners, and what each names."""
DEADLINE_S = 30.0
REFUSED = "refused"
HERE = "127.0.0.1"


class SuiteClient(Enum):
    """Who comes."""

    OPENSSL = "OpenSSL's own client"
    JAVA = "Kafka's own tool"
    LIBRDKAFKA = "librdkafka"


class SuiteServers:
    """Ours and Kafka's, by the names of listeners: ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = Authority()
        self.authority_file = authority.file(folder)
        self.settings = {
            "inter.broker.listener.name": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.signed("broker").store(folder, "broker")),
            **{f"listener.name.{name.lower()}.ssl.cipher.suites": ",".join(suites)
               for name, suites in NAMED.items() if suites},
        }  # fmt: skip
        self.protocols = {"PLAIN": "PLAINTEXT", **dict.fromkeys(NAMED, "SSL")}
        self.ours: dict[str, int] = {}
        self.kafka: dict[str, int] = {}


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://{HERE}:{port}" for name, port in ports.items())


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteServers]:
    found = SuiteServers(tmp_path_factory.mktemp("suites"))
    for attempt in range(5):
        found.ours = {name: free_port() for name in found.protocols}
        try:
            running = start_broker(found.folder / "ours", {
                **found.settings, "listeners": _listeners(found.ours),
                "listener.security.protocol.map": ",".join(map(":".join, found.protocols.items())),
            })  # fmt: skip
            break
        except BrokerStartError as error:
            if PORT_TAKEN not in str(error) or attempt == 4:
                raise
    try:
        ports, controller = {name: free_port() for name in found.protocols}, free_port()
        protocols = found.protocols | {"CONTROLLER": "PLAINTEXT"}
        try:
            kafka = start_kafka(found.folder / "kafka", heap="384m", port=ports["PLAIN"], settings={
                **found.settings, "listeners": _listeners({**ports, "CONTROLLER": controller}),
                "advertised.listeners": _listeners(ports),
                "controller.quorum.voters": f"1@{HERE}:{controller}",
                "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            })  # fmt: skip
        except Unavailable as missing:
            pytest.skip(f"Apache Kafka 4.4: {missing}")
        found.kafka = ports
        with kafka:
            yield found
    finally:
        running.stop()


def by_openssl(port: int, suites: str, servers: SuiteServers) -> str:
    """The suite that is spoken."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{HERE}:{port}", "-tls1_3", "-ciphersuites", suites,
         "-CAfile", str(servers.authority_file), "-verify_return_error"],
        input="", capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    spoken = re.search(r"New, TLSv1\.3, Cipher is (\w+)", done.stdout)
    if spoken and not done.returncode:
        return spoken[1]
    return REFUSED if re.search(r"alert (handshake failure|protocol version)", done.stderr) else done.stderr


def by_java(port: int, suites: str, servers: SuiteServers) -> str:
    """Lists topics."""
    file = servers.folder / f"java-{suites.replace(',', '-')}.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.cipher.suites={suites}\n"
        f"ssl.truststore.location={servers.authority_file}\nssl.enabled.protocols=TLSv1.3\n"
    )
    words = ["--bootstrap-server", f"{HERE}:{port}", "--command-config", str(file), "--list"]
    done = run_tool("kafka-topics", words, folder=servers.folder)
    said = (done.stdout + done.stderr).decode()
    if not done.returncode:
        return suites
    return REFUSED if "SslAuthenticationException" in said else said


def by_librdkafka(port: int, suites: str, servers: SuiteServers) -> str:
    """Lists topics; it gets in where any suite of either version is in common."""
    refused: list[object] = []
    admin = AdminClient({
        "bootstrap.servers": f"{HERE}:{port}", "security.protocol": "ssl",
        "ssl.ca.location": str(servers.authority_file), "error_cb": refused.append,
    })  # fmt: skip
    try:
        admin.list_topics(timeout=DEADLINE_S)
    except KafkaException:
        return f"{REFUSED}: {refused}"
    return "let in"


CLIENTS = {
    SuiteClient.OPENSSL: by_openssl, SuiteClient.JAVA: by_java, SuiteClient.LIBRDKAFKA: by_librdkafka,
}  # fmt: skip
CELLS = [
    (client, listener, suite)
    for listener in NAMED
    for client in SuiteClient
    for suite in (SUITES if client is not SuiteClient.LIBRDKAFKA else (",".join(SUITES),))
]


@pytest.mark.parametrize(
    ("client", "listener", "suite"), drawn("suites of TLS 1.3", CELLS, 6),
    ids=lambda one: getattr(one, "name", one),
)  # fmt: skip
def test_a_client_with_one_suite_is_let_in_where_kafka_lets_it_in(
    client: SuiteClient, listener: str, suite: str, servers: SuiteServers
) -> None:
    """And is told the same where it is not."""
    ours, kafka = (
        CLIENTS[client](ports[listener], suite, servers) for ports in (servers.ours, servers.kafka)
    )
    assert ours == kafka
    if client is not SuiteClient.LIBRDKAFKA:
        assert ours == (suite if not NAMED[listener] or suite in NAMED[listener] else REFUSED)


def test_a_client_that_prefers_what_is_not_named_is_refused_here(servers: SuiteServers) -> None:
    """Kafka goes on with the suite that both have: OpenSSL chooses before it can be asked."""
    told = [by_openssl(ports["AES"], f"{CHACHA}:{AES_128}", servers)
            for ports in (servers.ours, servers.kafka)]  # fmt: skip
    assert told == [REFUSED, AES_128]
