"""What a cluster holds as another one's mirror: the end of each partition in that one's offsets.

In: the bus of the cluster that is asked. Out: `MirroredEnds`. Raises BusError.
Never: an end that counts records which did not come from the source: of a topic that is a mirror no
longer, only what the mirror had confirmed counts, which is at most a few seconds less, or nothing.
Nor a former primary called the new one: both have topics marked as copied to the other site, only
the site epoch tells them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from bus.client.admin import queries, site_keys
from bus.client.admin.site_keys import SiteKeys
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.model import TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.contracts.mirror import SOURCE_CLUSTER_KEY, MirrorConfirmed, decode_confirmed
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

CLIENT_ID = "databus-mirrored-ends"
TIMEOUT_S = 10.0
CONFIRMED = TopicPartition(CONTROL_MIRROR_CONFIRMED, 0)
NEWEST_RECORDS = 5_000
"""What the mirror says of a hundred partitions in a minute, in which it says everything once."""
POLL_S = 1.0
POLL_RECORDS = 1_000


class MirroredEnd(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. `is_mirror`: it still takes records from its source alone."""

    topic: str
    partition: int
    end: int
    is_mirror: bool


class MirroredEnds(msgspec.Struct, frozen=True, kw_only=True):
    """All partitions that are, or were said to be, mirrors of the source. `is_closed`: whatever
    their keys say, the cluster is the secondary by its site epoch, or not confirmed as primary."""

    cluster_id: str
    source_cluster_id: str
    partitions: tuple[MirroredEnd, ...]
    is_closed: bool = False

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """By topic and partition."""
        return {(one.topic, one.partition): one.end for one in self.partitions}

    def is_taken_over(self, topics: Collection[str]) -> bool:
        """Whether these topics were mirrors and are written to by others now: all of them."""
        found = [one for one in self.partitions if one.topic in topics]
        return bool(found) and not self.is_closed and not any(one.is_mirror for one in found)


def cluster_id_of(bus: BusSettings, *, client_id: str, timeout_s: float) -> str:
    """Over a connection of its own. Raises BusError."""
    admin = Admin(bus, client_id=client_id, timeout_s=timeout_s)
    try:
        return admin.cluster().cluster_id
    finally:
        admin.close()


def mirrored_ends(bus: BusSettings, source_cluster_id: str) -> MirroredEnds:
    """Ask the cluster. Blocking. Of an unknown source (an empty id) nothing is held."""
    admin = Admin(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
    try:
        cluster, topics = admin.describe_cluster()
        if not source_cluster_id:
            return MirroredEnds(cluster_id=cluster.cluster_id, source_cluster_id="", partitions=())
        places = {
            TopicPartition(topic.name, each.index)
            for topic in topics if not topic.internal for each in topic.partitions
        }  # fmt: skip
        keys, is_confirmed = _site(bus)
        # In this order: a topic that is a mirror after its ends were asked was one when they were.
        ends = admin.end_offsets(places)
        names = sorted({place.topic for place in places})
        configs = admin.all_topic_configs(names)
        mirrors = [n for n in names if configs[n].get(SOURCE_CLUSTER_KEY) == source_cluster_id]
        # A switch lets the topics that it opens say that they are to be copied to the former site;
        # but the mirror has marked those of the former primary in the same way.
        marked = [n for n in names if configs[n].get(TARGET_CLUSTER_KEY) == source_cluster_id]
    finally:
        admin.close()
    confirmed = newest_confirmed(bus, source_cluster_id, cluster.cluster_id)
    is_primary = keys.epoch is not None and keys.epoch.primary == cluster.cluster_id
    opened = marked if is_primary else []
    return MirroredEnds(
        cluster_id=cluster.cluster_id,
        source_cluster_id=source_cluster_id,
        partitions=tuple(
            _ends(ends, frozenset(mirrors), frozenset(opened), confirmed, places)
        ),
        is_closed=keys.epoch is not None and not (is_primary and is_confirmed),
    )


def _site(bus: BusSettings) -> tuple[SiteKeys, bool]:
    """What the cluster holds about both sites, and whether all its brokers are confirmed. Brokers
    that do not say it to us are taken for others than ours, which have no site epoch."""
    with SyncClient.of(bus, CLIENT_ID, request_timeout_ms=int(TIMEOUT_S * 1000)) as client:
        try:
            keys = site_keys.read(client)
        except BusError as error:
            if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            return SiteKeys(), True
        return keys, keys.confirms(queries.cluster(client).alive)


def newest_confirmed(
    bus: BusSettings, source_cluster_id: str, target_cluster_id: str
) -> dict[TopicPartition, int]:
    """What the mirror said last of each partition, on the topic of the cluster that is asked."""
    found: dict[TopicPartition, int] = {}
    with Consumer(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S) as consumer:
        if CONFIRMED not in consumer.partitions_of_all([CONTROL_MIRROR_CONFIRMED]):
            return {}
        first, end = consumer.bounds(CONFIRMED)
        begin = max(first, end - NEWEST_RECORDS)
        _read(consumer, begin, end, found, source_cluster_id, target_cluster_id)
    return found


def _read(
    consumer: Consumer,
    begin: int,
    end: int,
    found: dict[TopicPartition, int],
    source_cluster_id: str,
    target_cluster_id: str,
) -> None:
    consumer.assign({CONFIRMED: begin})
    position, silent_s = begin, 0.0
    while position < end:
        records = consumer.poll(POLL_RECORDS, POLL_S)
        for record in records:
            position = record.offset + 1
            one = decode_confirmed(record.value)
            if one is not None and is_between(one, source_cluster_id, target_cluster_id):
                found[TopicPartition(one.topic, one.partition)] = one.offset
        silent_s = 0.0 if records else silent_s + POLL_S
        if silent_s >= TIMEOUT_S:
            raise BusError(ErrorCode.REQUEST_TIMED_OUT, CONTROL_MIRROR_CONFIRMED)


def is_between(confirmed: MirrorConfirmed, source_cluster_id: str, target_cluster_id: str) -> bool:
    """Whether a value is of the mirror between these two clusters."""
    return (confirmed.source_cluster_id, confirmed.target_cluster_id) == (
        source_cluster_id,
        target_cluster_id,
    )


def _ends(
    ends: Mapping[TopicPartition, int],
    mirrors: frozenset[str],
    opened: frozenset[str],
    confirmed: Mapping[TopicPartition, int],
    places: Iterable[TopicPartition],
) -> Iterable[MirroredEnd]:
    for place in sorted(places):
        is_mirror = place.topic in mirrors
        end = ends.get(place) if is_mirror else confirmed.get(place)
        if is_mirror and end is None:  # without a leader just now: what was confirmed is there
            end = confirmed.get(place, 0)
        if end is None and place.topic in opened:  # the mirror never came to say it here
            end = 0
        if end is not None:
            yield MirroredEnd(
                topic=place.topic, partition=place.partition, end=end, is_mirror=is_mirror
            )
