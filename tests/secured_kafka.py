"""Apache Kafka that asks for TLS, a client's certificate and a password, and how one connects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bus.settings import BusSettings
from deploy.errors import Unavailable
from deploy.servers.kafka import start_kafka
from deploy.servers.process import JavaServer
from tests.tls_files import TlsFiles

PASSWORDS = {"PLAIN": 'it\'s "quoted", with \\ and = and ;', "SCRAM-SHA-512": "scram-secret"}


@contextmanager
def secured_broker(tls: TlsFiles, folder: Path, **more: str) -> Iterator[JavaServer]:
    """Apache Kafka 4.4 with one listener, SASL_SSL, that demands a client's certificate; `more`:
    of its settings, with _ for dots."""
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
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    user = f"SCRAM-SHA-512=[name=city,password={PASSWORDS['SCRAM-SHA-512']}]"
    try:
        server = start_kafka(
            folder, settings=settings, heap="512m", protocol="SASL_SSL", scram=[user]
        )
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
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
