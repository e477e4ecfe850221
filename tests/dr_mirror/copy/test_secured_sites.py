"""A source behind TLS, a client's certificate and a password, which is changed while records flow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster
from deploy.servers.process import JavaServer
from tests.dr_mirror.two_sites import MirrorProcess, SiteReader, start_target, wait_until
from tests.secured_kafka import bus_of, secured_broker
from tests.tls_files import TlsFiles

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "data.secured"
MECHANISM = "SCRAM-SHA-512"
SESSION_MS = "2000"
"""After so long Apache Kafka closes a connection that did not log in again."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def source(tls: TlsFiles, tmp_path: Path) -> Iterator[JavaServer]:
    with secured_broker(tls, tmp_path / "kafka", connections_max_reauth_ms=SESSION_MS) as server:
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RunningCluster]:
    with start_target(tmp_path / "target") as cluster:
        yield cluster


def mirror_of(folder: Path, bus: BusSettings, target: str) -> MirrorProcess:
    """With the operator's keys."""
    security = {f"mirror.source_librdkafka.{key}": text for key, text in bus.librdkafka.items()}
    return MirrorProcess(folder, bus.bootstrap_servers, target, security)


def client_of(bus: BusSettings) -> dict[str, str]:
    """Of librdkafka."""
    return {"bootstrap.servers": bus.bootstrap_servers, **bus.librdkafka}


def send(bus: BusSettings, count: int) -> None:
    """Acknowledged."""
    sender = Producer(client_of(bus))
    for number in range(count):
        sender.produce(TOPIC, b"%d" % number, partition=0)
    assert sender.flush(30) == 0


def change_password(bus: BusSettings, password: str) -> None:
    """Of the user that the mirror is."""
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("city", scram, password.encode())
    admin = AdminClient(client_of(bus))
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(30)


def test_a_changed_password_is_named_and_copying_goes_on_with_the_new_one(
    source: JavaServer, target: RunningCluster, tls: TlsFiles, tmp_path: Path
):
    """Sessions that end, too: Apache Kafka closes them, and the mirror logs in again."""
    bus, operator = bus_of(source, tls, MECHANISM), bus_of(source, tls, "PLAIN")
    admin = AdminClient(client_of(operator))
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    site_b = SiteReader(target.bootstrap)
    mirror = mirror_of(tmp_path / "mirror", bus, target.mirror_bootstrap).start()
    try:
        send(operator, 100)
        wait_until(lambda: site_b.ends(TOPIC, 0)[1] == 100, "the first records are copied")
        change_password(operator, "a new one")
        send(operator, 50)
        wait_until(lambda: mirror.state_of(TOPIC) == "login_refused", "the refusal is a state")
        told = mirror.command("status").stdout
        assert "mirror.source_librdkafka" in told, told
        assert "a new one" not in mirror.log.read_text("utf-8")
        mirror.kill()
        mirror.settings["mirror.source_librdkafka.sasl.password"] = "a new one"
        mirror.start()
        wait_until(lambda: site_b.ends(TOPIC, 0)[1] == 150, "all are copied")
        wait_until(lambda: mirror.state_of(TOPIC) == "copying", "and the state is well")
    finally:
        mirror.kill()


@pytest.mark.rotates("security of a source")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"ssl.ca.location": "/nowhere.pem"}, "/nowhere.pem"),
    ],
)
def test_a_mirror_that_cannot_be_secured_as_told_does_not_start(
    change: dict[str, str], words: str, tls: TlsFiles, tmp_path: Path
):
    """It names the setting, and connects to nobody."""
    certificate, key = tls.signed("client")
    keys = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "city",
        "sasl.password": "secret", "ssl.ca.location": str(tls.authority),
        "ssl.certificate.location": str(certificate), "ssl.key.location": str(key), **change,
    }  # fmt: skip
    settings = {f"mirror.source_librdkafka.{name}": text for name, text in keys.items()}
    mirror = MirrorProcess(tmp_path / "mirror", "127.0.0.1:1", "127.0.0.1:2", settings).start()
    assert mirror.process is not None
    assert mirror.process.wait(60) != 0
    log = mirror.log.read_text("utf-8")
    assert words in log, log
    assert "secret" not in log
    assert "Traceback" not in log, log
