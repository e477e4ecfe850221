"""The applications on an Apache Kafka that asks for TLS, a client's certificate and a password."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from deploy.servers.process import JavaServer
from tests.secured_kafka import bus_of, secured_broker
from tests.spark_apps.conftest import DriverProcess, driver_on
from tests.tls_files import TlsFiles

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority that both ends trust."""
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured_kafka(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    """Apache Kafka 4.4 with one listener, SASL_SSL, that demands a client's certificate."""
    with secured_broker(tls, tmp_path_factory.mktemp("secured-kafka")) as server:
        yield server


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
