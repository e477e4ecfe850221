"""When a write counts, and when an alarm stands on its topic: seen from outside.

In: a running product. Out: moments in epoch milliseconds. Never: a time that the product tells of
itself: a batch's own number is taken before it is written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from alarm.dispatch.reader import OperationsReader
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import END, Consumer
from bus.client.model import TopicPartition
from bus.contracts.alarms import Alarm
from bus.contracts.topics import EVENT_ALARM
from bus.domain.visibility import EVERYTHING
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.bench.ingest.product import Product
from ingest.store.open import open_store
from ingest.store.port import PageRequest

POLL_S = 0.01  # the error of a moment
_EAGER = {**FOLLOWS_LEADERS, "topic.metadata.refresh.interval.ms": 50, "fetch.wait.max.ms": 50}
"""A broker's death must not be seen late because the watcher waits for an answer of it."""


Moments = list[float]


class TopicMoments(NamedTuple):
    """Of a topic's records: when each was made, by its sender's clock, and when it was seen."""

    produced: Moments
    seen: Moments


class _Watcher:
    """A thread that samples until it is closed."""

    def __init__(self, sample: Callable[[], None]) -> None:
        self._sample = sample
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Sample no more."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(POLL_S):
            self._sample()


class _Closable(Protocol):
    def close(self) -> object: ...


@contextlib.contextmanager
def _sampling(sample: Callable[[], None], source: _Closable) -> Iterator[None]:
    """Sample until the block ends, then close what is sampled."""
    watcher = _Watcher(sample)
    try:
        yield
    finally:
        watcher.close()
        source.close()


@contextlib.contextmanager
def commits(product: Product) -> Iterator[dict[int, int]]:
    """By the number of a batch (its `stored_at_ms`): when it was first seen to count."""
    seen: dict[int, int] = {}
    reader = open_store(product.store_url)

    def sample() -> None:
        number = reader.newest_attempt()
        if number:
            seen.setdefault(number, now_ms())

    with _sampling(sample, reader):
        yield seen


def moment_of(seen: dict[int, int], batch: int) -> int | None:
    """When a batch was seen; a quicker one between two looks counts with the next."""
    later = [number for number in seen if number >= batch]
    return seen[min(later)] if later else None


@contextlib.contextmanager
def alarms(bootstrap: str) -> Iterator[list[tuple[int, int]]]:
    """(captured, seen on the topic) of every alarm from now on."""
    bus = BusSettings(bootstrap_servers=bootstrap)
    consumer = Consumer(bus, client_id="bench-alarms")
    consumer.assign({TopicPartition(EVENT_ALARM, 0): END})
    found: list[tuple[int, int]] = []
    decoder = msgspec.json.Decoder(Alarm)

    def sample() -> None:
        for record in consumer.poll(100, POLL_S):
            found.append((decoder.decode(record.value or b"").captured_at_ms, now_ms()))

    with _sampling(sample, consumer):
        yield found


@contextlib.contextmanager
def seen_on(bootstrap: str, topic: str) -> Iterator[TopicMoments]:
    """Every record of a topic from now on."""
    bus = BusSettings(bootstrap_servers=bootstrap)
    consumer = Consumer(bus, client_id=f"bench-{topic}", overrides=_EAGER)
    consumer.assign(dict.fromkeys(consumer.partitions_of(topic), END))
    found = TopicMoments([], [])

    def sample() -> None:
        for record in consumer.poll(1000, POLL_S):
            found.produced.append(record.timestamp_ms)
            found.seen.append(now_ms())

    with _sampling(sample, consumer):
        yield found


@contextlib.contextmanager
def recorded(product: Product) -> Iterator[Moments]:
    """Whenever the operations store has another newest alarm."""
    reader = OperationsReader(product.folder / "store" / "operations.db")
    moments: Moments = []
    newest: list[str] = [""]

    def sample() -> None:
        alarms, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=1))
        if alarms and alarms[0].alarm_id != newest[0]:
            newest[0] = alarms[0].alarm_id
            moments.append(now_ms())

    with _sampling(sample, reader):
        yield moments
