"""What the bus says: how many records each topic ever held, and how far its readers are.

In: where the bus is. Out: counts. Never: a consumer group, a commit, a change.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bus.client.committed import valid_offsets
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import ClusterUnavailable, admin_client, describe, end_offsets
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.headers import KIND
from bus.contracts.topics import QUARANTINE_RECORDS
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.errors import OperatorError
from ingest.store.port import Position
from monitor.models.lag import lags

READ_TIMEOUT_S = 60.0
BATCH = 2000


@dataclass(frozen=True, slots=True)
class PutAside:
    """Records of one kind that the edge put aside. `in_flight` of them are not passed yet."""

    arrived: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class TopicTotals:
    """Identity and end offsets of the topics asked for."""

    bus: BusSettings
    cluster: ClusterIdentity
    end_offsets: dict[tuple[str, int], int]

    def on_topic(self, topic: str) -> int:
        """Records ever appended; offsets count from zero and our data topics hold no markers."""
        return sum(end for (name, _), end in self.end_offsets.items() if name == topic)

    def of_former(self, application: str, positions: Iterable[Position], topic: str) -> int:
        """Records that an application has passed of earlier topics of that name: they were made
        anew, and their ends are nowhere else any more. What it had not passed is lost, and told."""
        return sum(
            p.end_offset
            for p in positions
            if (p.application, p.topic) == (application, topic)
            and p.cluster_id == self.cluster.cluster_id
            and p.topic_id != self.cluster.topic_ids.get(topic)
        )

    def behind(self, application: str, positions: Sequence[Position], topics: Iterable[str]) -> int:
        """Records of these topics that an application has not passed yet."""
        wanted = set(topics)
        ends = {tp: end for tp, end in self.end_offsets.items() if tp[0] in wanted}
        ids = self.cluster.topic_ids
        return sum(each.lag for each in lags(application, positions, ends, topic_ids=ids))

    def behind_group(self, group: str, topics: Iterable[str]) -> int:
        """Records of these topics beyond what a group has committed. Raises `OperatorError`."""
        admin = Admin(self.bus, client_id="account")
        try:
            offsets = admin.committed_offsets(group)
        except BusError as error:
            raise OperatorError(f"group {group} could not be read: {error}") from error
        finally:
            admin.close()
        wanted, (committed, _) = set(topics), valid_offsets(offsets, self.cluster.topic_ids)
        return sum(
            max(0, end - committed.get(place, 0))
            for place, end in self.end_offsets.items()
            if place[0] in wanted
        )

    def advanced_to(self, application: str, positions: Iterable[Position]) -> TopicTotals:
        """The totals at the moment of an application's positions, or later."""
        ids, ends = self.cluster.topic_ids, dict(self.end_offsets)
        for p in positions:
            place = p.topic, p.partition
            if p.application == application and ids.get(p.topic) == p.topic_id and place in ends:
                ends[place] = max(ends[place], p.end_offset)
        return TopicTotals(self.bus, self.cluster, ends)

    def put_aside(self, application: str, positions: Sequence[Position]) -> dict[str, PutAside]:
        """What the edge put aside, by what its sender meant it to be."""
        ends = {p: e for (t, p), e in self.end_offsets.items() if t == QUARANTINE_RECORDS and e}
        on_topic = {(QUARANTINE_RECORDS, partition): end for partition, end in ends.items()}
        found = lags(application, positions, on_topic, topic_ids=self.cluster.topic_ids)
        passed = {each.partition: each.end_offset - each.lag for each in found}
        arrived: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for received in read_up_to(self.bus, QUARANTINE_RECORDS, ends):
            kind = (received.header(KIND) or b"").decode("utf-8", "replace")
            arrived[kind] += 1
            in_flight[kind] += received.offset >= passed[received.partition]
        return {kind: PutAside(count, in_flight[kind]) for kind, count in arrived.items()}


def read_topic_totals(bus: BusSettings, topics: Sequence[str]) -> TopicTotals:
    """Ask the brokers now."""
    try:
        admin = admin_client(bus)
        cluster = describe(admin, topics)
        ends = end_offsets(admin, cluster.partitions)
    except ClusterUnavailable as error:
        raise OperatorError(
            f"the bus at {bus.bootstrap_servers} does not answer: {error}"
        ) from error
    return TopicTotals(bus, cluster, ends)


def read_up_to(bus: BusSettings, topic: str, ends: dict[int, int]) -> Iterator[ConsumedRecord]:
    """All records of a topic up to the given ends."""
    if not ends:
        return
    left, deadline = dict(ends), time.monotonic() + READ_TIMEOUT_S
    with Consumer(bus, client_id="account") as consumer:
        consumer.assign({TopicPartition(topic, partition): BEGINNING for partition in ends})
        while left:
            if time.monotonic() > deadline:
                raise OperatorError(f"{topic} could not be read within {READ_TIMEOUT_S:g} s")
            for received in _polled(consumer, topic):
                if received.offset < ends[received.partition]:
                    yield received
                    if received.offset + 1 >= ends[received.partition]:
                        left.pop(received.partition, None)
            # Behind the last record may stand what is none: a marker, or what a cleaner has left.
            for place, end in consumer.ends_met.items():
                if end >= ends[place.partition]:
                    left.pop(place.partition, None)


def _polled(consumer: Consumer, topic: str) -> list[ConsumedRecord]:
    try:
        return consumer.poll(BATCH, 0.5)
    except BusError as error:
        raise OperatorError(f"{topic} could not be read: {error}") from error
