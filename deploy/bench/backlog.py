"""A backlog for the store: a day of the city, written to the topics as fast as they take it.

In: a broker's address, how many. Out: that many valid records on the data topics.
Never: the store, the clock of the flow.
"""

from __future__ import annotations

from itertools import islice

from bus.client.kafka.producer import Producer
from bus.contracts import headers
from bus.contracts.topics import TOPICS
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from deploy.errors import OperatorError
from deploy.topics import make_topics
from ingest.senders.simulator.day import day_records
from ingest.senders.simulator.generator import GeneratedRecord
from ingest.senders.simulator.settings import CitySettings

DENSE = CitySettings(rate=200.0, misfortunes=False, picture_every=0)
DAY_MS = 86_400_000
FLUSH_TIMEOUT_S = 120


def produce_backlog(bootstrap_servers: str, records: int) -> None:
    """Make the topics and fill them with the records of yesterday."""
    bus = BusSettings(bootstrap_servers=bootstrap_servers)
    make_topics(bus)
    producer = Producer(bus, client_id="backlog")
    start_ms = now_ms() - DAY_MS
    for made in islice(day_records(SiteSettings(), DENSE, start_ms, 24), records):
        _produce(producer, made)
    if producer.close(FLUSH_TIMEOUT_S):
        raise OperatorError("the backlog could not be written")


def _produce(producer: Producer, made: GeneratedRecord) -> None:
    line = made.line
    extra = [
        (headers.RECORD_ID, line.id.encode()),
        (headers.SCHEMA, TOPICS[line.topic].schema.encode()),
    ]
    producer.send(line.topic, made.body, key=made.key, headers=extra)
