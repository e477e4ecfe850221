"""A real broker is asked how large records are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.client.admin import queries
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.model import TopicAndPartition
from bus.client.wire.sync_client import SyncClient
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.databus_cluster import start_cluster
from spark_apps.batches.message import OffsetRanges
from spark_apps.batches.record_samples import RecordSampler
from spark_apps.batches.record_sizes import (
    LARGEST_BYTES,
    PLACES,
    RECORDS_PER_PLACE,
    UNASKED,
    RecordSizes,
    places_of,
)
from spark_apps.batches.slices import bytes_of, slices_of

pytestmark = pytest.mark.slow
MAX_BYTES = 8 * LARGEST_BYTES
MANY = UNASKED + 200
FEW = MAX_BYTES // LARGEST_BYTES
SMALL, LARGE, MIXED, BURST = ("small", 0), ("large", 0), ("mixed", 0), ("burst", 0)
LONG = 5 * RECORDS_PER_PLACE


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def bus(running: RunningBroker) -> Iterator[BusSettings]:
    """Topics of small records, of large ones, of small ones before large ones, and around them."""
    settings = BusSettings(bootstrap_servers=running.bootstrap)
    admin = Admin(settings, client_id="test")
    producer = Producer(settings, client_id="test")
    try:
        for topic, _ in (SMALL, LARGE, MIXED, BURST):
            admin.create_topic(topic, 1)
        for number in range(MANY):
            producer.send(SMALL[0], b"s" * 100)
            producer.send(MIXED[0], b"m" * (100 if number < MANY - 20 else 300_000))
        for number in range(LONG):
            is_large = LONG // 2 - 10 <= number < LONG // 2 + LONG // PLACES
            producer.send(BURST[0], b"b" * (20_000 if is_large else 100))
        for _ in range(FEW + 1):
            producer.send(LARGE[0], b"l" * 500_000)
        assert producer.flush() == 0
        yield settings
    finally:
        producer.close()
        admin.close()


@pytest.fixture
def sizes(bus: BusSettings) -> Iterator[RecordSizes]:
    asked = RecordSizes(bus, "test-sizes", MAX_BYTES)
    yield asked
    asked.close()


def whole(*places: tuple[str, int]) -> OffsetRanges:
    return {place: (0, FEW + 1 if place == LARGE else MANY) for place in places}


def test_the_larger_end_of_a_range_counts(sizes: RecordSizes) -> None:
    found = sizes.of(whole(SMALL, LARGE, MIXED))
    assert found[SMALL] == 100
    assert found[LARGE] == 500_000
    assert found[MIXED] == 300_000


def test_a_burst_of_large_records_between_small_ones_is_seen(sizes: RecordSizes) -> None:
    """What broke: only the ends were asked, and such a batch came whole."""
    assert sizes.of({BURST: (0, LONG)})[BURST] == 20_000


@given(st.integers(0, 1 << 40), st.integers(1, 200_000))
def test_places_are_both_ends_and_leave_no_wide_gap(first: int, count: int) -> None:
    found = places_of(first, first + count)
    assert (found[0], found[-1]) == (first, first + count - 1)
    assert len(found) <= PLACES
    gaps = [later - place for place, later in pairwise(found)]
    assert all(gap <= max(2 * RECORDS_PER_PLACE, count // (PLACES - 1) + 1) for gap in gaps)


def test_few_records_are_never_asked_for(sizes: RecordSizes) -> None:
    """However large each of them is, they fit."""
    found = sizes.of({SMALL: (0, FEW)})
    assert bytes_of({SMALL: (0, FEW)}, found) <= MAX_BYTES


def test_what_is_known_to_be_small_is_not_asked_for_again(
    sizes: RecordSizes, bus: BusSettings
) -> None:
    """Each batch of an even flow would wait for an answer; a large one asks again."""
    sizes.of(whole(MIXED))
    within = {MIXED: (0, 100)}
    assert sizes.of(within)[MIXED] == 100, "what seemed too large is asked for"
    assert sizes.of({MIXED: (MANY - 10, MANY)})[MIXED] == 100
    assert sizes.of(whole(MIXED))[MIXED] == 300_000


@pytest.fixture
def asked_of(sizes: RecordSizes, monkeypatch: pytest.MonkeyPatch) -> list[TopicAndPartition]:
    """The partition of every question that is waited for, in this order."""
    asked: list[TopicAndPartition] = []
    ask = RecordSampler.record_bytes

    def noted(
        sampler: RecordSampler, place: TopicAndPartition, offset: int, patience_s: float
    ) -> tuple[int | None, float]:
        asked.append(place)
        return ask(sampler, place, offset, patience_s)

    monkeypatch.setattr(RecordSampler, "record_bytes", noted)
    return asked


def test_of_a_leader_that_is_away_sizes_are_remembered(
    running: RunningBroker, sizes: RecordSizes, asked_of: list[TopicAndPartition]
) -> None:
    """What broke: asked for every place of every partition, five seconds in all; and then a record
    counted as 1 MiB, so that a batch of small ones was read in many slices. It is asked once; what
    is not answered comes in no more records at once than are taken unasked at any time."""
    batch = {SMALL: (0, MANY), BURST: (0, LONG)}
    known = sizes.of(batch)
    with standing_still(running):
        asked_of.clear()
        assert sizes.of({SMALL: (0, MANY)}) == {SMALL: MAX_BYTES // UNASKED}
        assert asked_of == [SMALL]
        found = sizes.of(batch)
        assert found[SMALL] == MAX_BYTES // UNASKED
        slices = slices_of(batch, found, MAX_BYTES)
        assert max(_count(one) for one in slices) <= UNASKED
    until_answered: dict[TopicAndPartition, int] = {}
    while until_answered != known:  # ends by the test's own time limit
        until_answered = dict(sizes.of(batch))


def test_a_new_leader_is_asked_as_soon_as_there_is_one(tmp_path: Path) -> None:
    """What broke: the batch that waited for the election is larger than others, so its sizes are
    asked for; librdkafka asked the dead leader, and 300 small records were read in two slices,
    which took seconds."""
    with start_cluster(tmp_path, 3) as cluster:
        settings = BusSettings(bootstrap_servers=cluster.bootstrap)
        sizes = RecordSizes(settings, "test-sizes", MAX_BYTES)
        admin = Admin(settings, client_id="test")
        producer = Producer(settings, client_id="test")
        try:
            admin.create_topic(SMALL[0], 1, replication_factor=3)
            for _ in range(MANY):
                producer.send(SMALL[0], b"s" * 100)
            assert producer.flush() == 0
            assert sizes.of(whole(SMALL)) == {SMALL: 100}
            with SyncClient(cluster.bootstrap, "test") as any_node:
                leader = leader_of(any_node)
            cluster.kill(leader)
            for node_id in {1, 2, 3} - {leader}:
                with SyncClient(cluster.node(node_id).bootstrap, "test") as node:
                    while leader_of(node) in (-1, leader):
                        pass  # ends by the test's own time limit
            assert sizes.of(whole(SMALL)) == {SMALL: 100}
        finally:
            producer.close()
            admin.close()
            sizes.close()


def test_who_was_silent_is_asked_last(sizes: RecordSizes, asked_of: list[TopicAndPartition]) -> None:
    """What is left of the patience is for those who may answer."""
    nowhere = ("nowhere", 0)
    sizes.of({nowhere: (0, MANY), SMALL: (0, MANY)})
    asked_of.clear()
    assert sizes.of({nowhere: (0, MANY), SMALL: (0, MANY)})[SMALL] == 100
    assert asked_of[0] == SMALL
    assert asked_of.count(nowhere) <= 1


def leader_of(node: SyncClient) -> int:
    """Of the small records, as this node knows it."""
    [topic] = queries.topics(node, [SMALL[0]])
    return topic.partitions[0].leader


def _count(offsets: OffsetRanges) -> int:
    return sum(end - first for first, end in offsets.values())


@contextlib.contextmanager
def standing_still(running: RunningBroker) -> Iterator[None]:
    """SIGSTOP for as long as it lasts."""
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.pid, signal.SIGCONT)


def test_a_bus_that_does_not_answer_makes_small_slices() -> None:
    """Too many rather than too few."""
    away = RecordSizes(BusSettings(bootstrap_servers="127.0.0.1:9"), "test-away", MAX_BYTES)
    try:
        assert away.of(whole(SMALL)) == {SMALL: LARGEST_BYTES}
    finally:
        away.close()
