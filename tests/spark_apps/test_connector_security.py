"""What Spark's connector is told about a secured bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.client.kafka.cluster import ClusterUnavailable, admin_client
from bus.settings import BusSettings
from spark_apps.session.session import SessionError
from spark_apps.source.kafka_source import connector_security


def test_files_are_read_in_the_driver_and_their_texts_become_options(tmp_path: Path) -> None:
    """Executors need no file."""
    authority = tmp_path / "ca.pem"
    authority.write_text("-----BEGIN CERTIFICATE-----\n", encoding="ascii")
    bus = BusSettings(
        librdkafka={"security.protocol": "ssl", "ssl.ca.location": str(authority)},
        java={"fetch.max.bytes": "1000000"},
    )
    assert connector_security(bus) == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\n",
        "kafka.fetch.max.bytes": "1000000",
    }


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """By Spark's side and by librdkafka's; both are sentences with which a driver ends its start."""
    bus = BusSettings(
        librdkafka={"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "gone.pem")}
    )
    with pytest.raises(SessionError, match=r"gone\.pem"):
        connector_security(bus)
    with pytest.raises(ClusterUnavailable, match=r"ssl\.ca\.location"):
        admin_client(bus)


def test_a_key_that_librdkafka_does_not_know_is_named() -> None:
    """A typing error ends the start."""
    with pytest.raises(ClusterUnavailable, match=r"socket\.timeout\.msec"):
        admin_client(BusSettings(librdkafka={"socket.timeout.msec": "1"}))
