"""Identity of a cluster and its topics, for applications that keep their own positions.

In: bootstrap servers. Out: plain values. Never: records. Any Kafka cluster answers.
A topic recreated under its old name has another id: positions taken on the old one are void.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from bus.client.kafka.config import admin_config
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.settings import BusSettings

__all__ = [
    "AdminClient",
    "ClusterUnavailable",
    "admin_client",
    "describe",
    "describe_existing",
    "end_offsets",
    "offsets_since",
    "start_offsets",
    "wait_for_topics",
]

REQUEST_TIMEOUT_S = 10.0
TOPIC_WAIT_S = 120.0  # the supervisor starts broker, edge and streams at the same time

_NOT_THERE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_NOBODY_ANSWERS = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class ClusterUnavailable(Exception):
    """The cluster does not answer, or topics are missing."""


def admin_client(bus: BusSettings) -> AdminClient:
    """A client for questions; it connects by itself and again. Raises `ClusterUnavailable` where
    librdkafka refuses a setting."""
    try:
        return AdminClient(admin_config(bus, "cluster"))
    except KafkaException as error:
        raise ClusterUnavailable(f"the settings of the bus: {error}") from error


def describe(admin: AdminClient, topics: Iterable[str]) -> ClusterIdentity:
    """Identity of the cluster and of `topics`. Raises `ClusterUnavailable` if one is missing."""
    try:
        described = admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=REQUEST_TIMEOUT_S
        )
        found = {name: future.result() for name, future in described.items()}
        cluster_id = admin.list_topics(timeout=REQUEST_TIMEOUT_S).cluster_id or ""
    except KafkaException as error:
        raise ClusterUnavailable(str(error)) from error
    return _identity(cluster_id, found)


def describe_existing(
    admin: AdminClient, topics: Iterable[str], timeout_s: float, known: ClusterIdentity | None
) -> ClusterIdentity:
    """As `describe`, of those of `topics` that exist. The cluster's id is asked for where it is not
    `known`, or a topic is another one. Raises `ClusterUnavailable`."""
    found: dict[str, TopicDescription] = {}
    try:
        wanted = TopicCollection(list(topics))
        described = admin.describe_topics(wanted, request_timeout=timeout_s)
        for name, future in described.items():
            try:
                found[name] = future.result()
            except KafkaException as error:
                if error.args[0].code() not in _NOT_THERE:
                    raise
        now = _identity(known.cluster_id if known else "", found)
        if known is not None and now.topic_ids == known.topic_ids:
            return now
        cluster_id = admin.describe_cluster(request_timeout=timeout_s).result().cluster_id or ""
    except KafkaException as error:
        raise ClusterUnavailable(str(error)) from error
    return _identity(cluster_id, found)


def _identity(cluster_id: str, found: Mapping[str, TopicDescription]) -> ClusterIdentity:
    return ClusterIdentity(
        cluster_id=cluster_id,
        topic_ids={name: str(topic.topic_id) for name, topic in found.items()},
        partitions=tuple((n, p.id) for n, topic in sorted(found.items()) for p in topic.partitions),
    )


def wait_for_topics(
    admin: AdminClient, topics: Iterable[str], stopping: threading.Event
) -> ClusterIdentity:
    """As `describe`, but waits for the broker to come up and for the topics to be made."""
    wanted, deadline = list(topics), time.monotonic() + TOPIC_WAIT_S
    while True:
        try:
            return describe(admin, wanted)
        except ClusterUnavailable:
            if time.monotonic() > deadline or stopping.wait(0.2):
                raise


def start_offsets(
    admin: AdminClient, partitions: Iterable[TopicAndPartition]
) -> dict[TopicAndPartition, int]:
    """Log start offsets. Raises `ClusterUnavailable`."""
    return _offsets(admin, partitions, OffsetSpec.earliest())


def end_offsets(
    admin: AdminClient,
    partitions: Iterable[TopicAndPartition],
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[TopicAndPartition, int]:
    """End offsets (exclusive). Raises `ClusterUnavailable`."""
    return _offsets(admin, partitions, OffsetSpec.latest(), timeout_s)


def offsets_since(
    admin: AdminClient, partitions: Iterable[TopicAndPartition], timestamp_ms: int
) -> dict[TopicAndPartition, int]:
    """The first offset with this timestamp or a later one, the end offset where there is none.
    Raises `ClusterUnavailable`."""
    wanted = list(partitions)
    found = _offsets(admin, wanted, OffsetSpec.for_timestamp(timestamp_ms))
    ends = end_offsets(admin, [place for place, offset in found.items() if offset < 0])
    return found | ends


def _offsets(
    admin: AdminClient,
    partitions: Iterable[TopicAndPartition],
    spec: OffsetSpec,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> dict[TopicAndPartition, int]:
    asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    if not asked:
        return {}
    try:
        return _offsets_by_known_leaders(admin, asked, timeout_s)
    except KafkaException as error:
        if error.args[0].code() in _NOBODY_ANSWERS:
            raise ClusterUnavailable(str(error)) from error
    # librdkafka asks the leaders it remembers, with their epochs: after an election it is refused
    # (FENCED_LEADER_EPOCH) until the metadata is requested again.
    try:
        admin.list_topics(timeout=timeout_s)
        return _offsets_by_known_leaders(admin, asked, timeout_s)
    except KafkaException as error:
        raise ClusterUnavailable(str(error)) from error


def _offsets_by_known_leaders(
    admin: AdminClient, asked: dict[TopicPartition, OffsetSpec], timeout_s: float
) -> dict[TopicAndPartition, int]:
    answers = admin.list_offsets(asked, request_timeout=timeout_s)
    return {(tp.topic, tp.partition): f.result().offset for tp, f in answers.items()}
