"""A real edge in this process, its routes called without a socket; and a real broker process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings, SiteSettings
from deploy.servers.databus import RunningBroker, start_broker
from ingest.edge.app import open_edge
from ingest.edge.edge import Edge
from ingest.edge.routes import create_app
from ingest.settings import EdgeSettings, PictureSettings

NO_BUS = BusSettings(bootstrap_servers="127.0.0.1:1")  # the bus is away; the edge must not care


@pytest.fixture
def edge_settings() -> EdgeSettings:
    """Overridden where a test needs other bounds."""
    return EdgeSettings(spool_min_free_bytes=0)


@pytest.fixture
async def edge(tmp_path: Path, edge_settings: EdgeSettings) -> AsyncIterator[Edge]:
    """An edge whose bus is away."""
    site = SiteSettings(name="west", data_dir=str(tmp_path))
    async with open_edge(site, NO_BUS, edge_settings, PictureSettings()) as opened:
        yield opened


@pytest.fixture
async def http(edge: Edge) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that edge."""
    transport = httpx.ASGITransport(app=create_app(edge), client=("10.1.2.3", 1234))
    async with httpx.AsyncClient(transport=transport, base_url="http://edge") as client:
        yield client


@pytest.fixture(scope="session")
def bus_of_edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker process with the topics of the contract."""
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    create_topics(broker)
    yield broker
    broker.stop()


def create_topics(broker: RunningBroker) -> None:
    """As `up` does."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    Admin(bus, client_id="test").ensure_topics(TOPICS.values())
