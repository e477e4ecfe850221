"""The watch on an Apache Kafka that asks for TLS, a client's certificate and a password."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from watch_world import WatchWorld, until

from bus.client.wire.ports import Address
from bus.errors import BusError
from deploy.servers.process import JavaServer
from monitor.ports import ProcessStatus
from monitor.watch.questions import BrokerQuestion
from tests.secured_kafka import bus_of, secured_broker
from tests.tls_files import TlsFiles

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

ANSWER_S = 20.0


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority that both ends trust."""
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secured_kafka(tls: TlsFiles, tmp_path: Path) -> Iterator[JavaServer]:
    """Apache Kafka 4.4 with one listener, SASL_SSL, that demands a client's certificate."""
    with secured_broker(tls, tmp_path / "kafka") as server:
        yield server


async def test_a_broker_behind_tls_and_a_password_is_there_until_it_dies(
    secured_kafka: JavaServer, tls: TlsFiles, tmp_path: Path
) -> None:
    """Every such broker was away for ever, no incident reached the topic, silence saw nothing."""
    world = WatchWorld(bus_of(secured_kafka, tls, "SCRAM-SHA-512"), tmp_path / "var")
    world.processes = [ProcessStatus(role="streams", state="running")]
    async with world.watched() as service:
        await until(lambda: not service.blindness)
        world.processes = [ProcessStatus(role="streams", state="failed")]
        await until(lambda: world.subjects() == ["away:streams:open"])
        await until(lambda: [one.kind for one in world.on_topic()] == ["away"])
        await asyncio.to_thread(secured_kafka.stop)
        await until(lambda: f"away:broker {secured_kafka.address}:open" in world.subjects())
        assert service.blindness
    world.close()


def test_a_wrong_password_is_named_as_the_reason(secured_kafka: JavaServer, tls: TlsFiles) -> None:
    """Not as a broker that does not answer."""
    bus = bus_of(secured_kafka, tls, "PLAIN")
    wrong = msgspec.structs.replace(
        bus, librdkafka={**bus.librdkafka, "sasl.password": "not this one"}
    )
    address = Address("127.0.0.1", secured_kafka.port)
    BrokerQuestion(bus, address, ANSWER_S).ask()
    with pytest.raises(BusError, match="SASL authentication error"):
        BrokerQuestion(wrong, address, 3.0).ask()
