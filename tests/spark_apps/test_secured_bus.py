"""The applications on an Apache Kafka that asks for TLS, a client's certificate and a password."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bus.settings import BusSettings
from deploy.errors import Unavailable
from deploy.testservers.kafka import start_kafka
from deploy.testservers.process import JavaServer
from tests.spark_apps.conftest import DriverProcess, driver_on
from tests.spark_apps.tls_files import TlsFiles

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

PASSWORDS = {"PLAIN": 'it\'s "quoted", with \\ and = and ;', "SCRAM-SHA-512": "scram-secret"}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority that both ends trust."""
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured_kafka(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    """Apache Kafka 4.3 with one listener, SASL_SSL, that demands a client's certificate."""
    certificate, key = tls.signed("broker", "subjectAltName=IP:127.0.0.1")
    store = tls.folder / "broker-store.pem"
    store.write_text(key.read_text("ascii") + certificate.read_text("ascii"), encoding="ascii")
    password = PASSWORDS["PLAIN"].replace("\\", "\\\\").replace('"', '\\"')
    plain = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="city" password="{password}" user_city="{password}";'
    )
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.authority),
        "ssl.client.auth": "required",
    }
    user = f"SCRAM-SHA-512=[name=city,password={PASSWORDS['SCRAM-SHA-512']}]"
    folder = tmp_path_factory.mktemp("secured-kafka")
    try:
        server = start_kafka(
            folder, settings=settings, heap="512m", protocol="SASL_SSL", scram=[user]
        )
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.3: {missing}")
    with server:
        yield server


def bus_of(server: JavaServer, tls: TlsFiles, mechanism: str) -> BusSettings:
    """As an operator writes it, in librdkafka's keys alone."""
    certificate, key = tls.signed(f"client-{mechanism}")
    return BusSettings(
        bootstrap_servers=server.address,
        librdkafka={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "city",
            "sasl.password": PASSWORDS[mechanism],
            "ssl.ca.location": str(tls.authority),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        },
    )


@pytest.mark.parametrize(
    ("mechanism", "work_in"), [("SCRAM-SHA-512", "executors"), ("PLAIN", "driver")]
)
def test_records_are_stored_and_met_over_sasl_ssl(
    secured_kafka: JavaServer, tls: TlsFiles, tmp_path: Path, mechanism: str, work_in: str
) -> None:
    """Spark's Java client reads, librdkafka in driver and workers writes: one table of settings."""
    for driver in driver_on(bus_of(secured_kafka, tls, mechanism), tmp_path, work_in):
        driver.put_rule(mechanism, "浙C00001")
        for number in range(100):
            driver.send_vehicle(number, "浙C00001" if number % 50 == 7 else "")
        driver.flush()
        driver.start()
        driver.until(driver.stored, 100)
        wanted = {(mechanism, "id-7"), (mechanism, "id-57")}
        driver.until(partial(candidates_contain, driver, wanted), True)
        assert driver.stop() == 0


def candidates_contain(driver: DriverProcess, wanted: set[tuple[str, str]]) -> bool:
    """Whether they are on the topic, which both runs share."""
    return wanted <= set(driver.candidates())
