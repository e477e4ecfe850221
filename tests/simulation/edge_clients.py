"""What an edge has of librdkafka, in a world: a producer, a consumer and questions to a cluster.

In: the addresses of a site's brokers. Out: answers over simulated connections, by the blocking client
of the product. Never: an answer that a real client of these calls would not give: the producer is
idempotent, keeps its order, and tries again until it is closed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from bus.client.admin.cluster_admin import ClusterView
from bus.client.kafka.errors import ClientFailed, DeliveryError
from bus.client.kafka.producer import DeliveryReport, OnDelivery, RecordMetadata
from bus.client.model import (
    ConsumedRecord,
    TopicDescription,
    TopicPartition,
)
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.init_producer_id import InitProducerIdRequest
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from dr_mirror.switch.site_client import SiteClient
from tests.simulation import blocking
from tests.simulation.threads import VirtualEvent, VirtualThread

BY_NAME = 11
REQUEST_TIMEOUT_MS = 4_000
RETRY_S = 0.3
LINGER_S = 0.05
NO_WAIT_S = 0.2
AGAIN = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}  # fmt: skip
"""A producer sends the same batch again."""


def pause(seconds: float) -> None:
    """Of a thread."""
    blocking.wait_for(asyncio.sleep(seconds))


def site_client(bus: BusSettings, name: str) -> SiteClient:
    """All that is asked of one cluster."""
    return SiteClient(name, bus)


class EdgeAdmin:
    """`bus.client.kafka.admin.Admin`, as far as an edge asks it."""

    def __init__(self, bus: BusSettings, *, client_id: str, timeout_s: float) -> None:
        self._site = site_client(bus, client_id)

    def describe_cluster(self) -> tuple[Any, list[TopicDescription]]:
        self._site.refresh()
        topics = [topic for _, topic in sorted(self._site.view.topics.items())]
        return self._site.view, topics

    def cluster(self) -> ClusterView:
        self._site.refresh()
        return self._site.view

    def wait_until_up(self, timeout_s: float) -> None:
        self._site.refresh()

    def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._site.leaders.ends(sorted(places))

    def all_topic_configs(self, names: Sequence[str]) -> dict[str, Mapping[str, str]]:
        held = self._site.topics()
        missing = [name for name in names if name not in held]
        if missing:
            raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing[0])
        return {name: held[name].configs for name in names}

    def close(self) -> None:
        self._site.close()


class EdgeConsumer:
    """`bus.client.kafka.consumer.Consumer` of one partition."""

    def __init__(self, bus: BusSettings, *, client_id: str, timeout_s: float) -> None:
        self._site = site_client(bus, client_id)
        self._place: TopicPartition | None = None
        self._position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def partitions_of_all(self, topics: Iterable[str]) -> set[TopicPartition]:
        self._site.refresh()
        return {
            TopicPartition(name, each.index)
            for name in topics if name in self._site.view.topics
            for each in self._site.view.topics[name].partitions
        }  # fmt: skip

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        ends = self._site.leaders.ends([place])
        if place not in ends:
            raise BusError(ErrorCode.LEADER_NOT_AVAILABLE, place.topic)
        return 0, ends[place]

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        [(self._place, self._position)] = positions.items()

    def poll(self, max_records: int, timeout_s: float) -> list[ConsumedRecord]:
        assert self._place is not None
        try:
            batches = self._site.leaders.fetch(self._place, self._position)
        except (BusError, ValueError):  # no leader: librdkafka asks again by itself
            pause(timeout_s)
            self._refresh()
            return []
        found = [
            ConsumedRecord(*self._place, one.offset, one.timestamp_ms, None, one.value, ())
            for at, header in iter_batches(batches) if not header.is_control
            for one in read_records(batches, at) if one.offset >= self._position
        ]  # fmt: skip
        if not found:
            pause(timeout_s)
            return []
        self._position = found[-1].offset + 1
        return found

    def _refresh(self) -> None:
        try:
            self._site.refresh()
        except BusError:
            return

    def close(self) -> None:
        self._site.close()


class _Waiting(NamedTuple):
    record: Record
    on_delivery: OnDelivery


class EdgeProducer:
    """`bus.client.kafka.producer.Producer` with `message.timeout.ms = 0`.

    Invariant: `_queues` hold, per partition and in order, what is not decided; one request is under
    way at a time.
    """

    def __init__(
        self, bus: BusSettings, *, client_id: str, overrides: Mapping[str, object] | None = None
    ) -> None:
        self._client = SyncClient.of(bus, client_id, request_timeout_ms=REQUEST_TIMEOUT_MS)
        self._site = site_client(bus, client_id)
        self._queues: dict[TopicPartition, deque[_Waiting]] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._identity = -1, -1
        self._failure: ClientFailed | None = None
        self._stopping, self._moved = VirtualEvent(), VirtualEvent()
        self._thread = VirtualThread(target=self._run, name=f"{client_id} producer", daemon=True)
        self._thread.start()

    def send(
        self, topic: str, value: bytes, *, key: bytes | None, headers: Sequence[Any],
        timestamp_ms: int | None, on_delivery: OnDelivery,
    ) -> None:  # fmt: skip
        if self._failure is not None:
            raise self._failure
        place = TopicPartition(topic, self._partition_of(topic, key or b""))
        record = Record(key, value, tuple(headers), timestamp_ms or now_ms())
        self._queues.setdefault(place, deque()).append(_Waiting(record, on_delivery))
        self._moved.set()

    def close(self, timeout_s: float) -> int:
        """What is in flight may arrive within the time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while any(self._queues.values()) and self._failure is None:
            if asyncio.get_running_loop().time() >= deadline:
                break
            pause(NO_WAIT_S)
        self._stopping.set()
        self._moved.set()
        self._thread.join()
        self._client.close()
        self._site.close()
        return sum(map(len, self._queues.values()))

    def _partition_of(self, topic: str, key: bytes) -> int:
        while topic not in self._site.view.topics:
            try:
                self._site.refresh()
            except BusError:
                pause(RETRY_S)
            if self._stopping.is_set():
                raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)
        return zlib.crc32(key) % len(self._site.view.topics[topic].partitions)

    def _run(self) -> None:
        while not self._stopping.is_set() and self._failure is None:
            self._moved.clear()
            due = [place for place, queue in sorted(self._queues.items()) if queue]
            if not due:
                self._moved.wait(1.0)
                continue
            pause(LINGER_S)
            for place in due:
                if self._queues[place]:  # empty once the producer has failed
                    self._deliver(place)

    def _deliver(self, place: TopicPartition) -> None:
        """One batch, until it is decided or the producer is closed."""
        batch = list(self._queues[place])[:10]
        while not self._stopping.is_set():
            try:
                result = self._produce(place, [one.record for one in batch])
            except BusError as error:
                code, offset = error.code, -1
            else:
                code, offset = ErrorCode.of(result.error_code), result.base_offset
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[place] = self._sequences.get(place, 0) + len(batch)
                self._settle(place, batch, offset)
                return
            if code not in AGAIN:
                self._fail(place, code)
                return
            pause(RETRY_S)
            self._find_leader()

    def _settle(self, place: TopicPartition, batch: list[_Waiting], offset: int) -> None:
        for number, one in enumerate(batch):
            self._queues[place].popleft()
            report: DeliveryReport = RecordMetadata(
                *place, offset + number if offset >= 0 else -1, one.record.timestamp_ms
            )
            one.on_delivery(report)

    def _fail(self, place: TopicPartition, code: ErrorCode) -> None:
        """As librdkafka does when an idempotent producer lost its place."""
        self._failure = ClientFailed(code, "the producer lost its place")
        error = DeliveryError(code, "the producer lost its place", place.topic)
        for queue in self._queues.values():
            while queue:
                queue.popleft().on_delivery(error)

    def _produce(self, place: TopicPartition, records: list[Record]) -> Any:
        if self._identity[0] < 0:
            answer = self._client.request(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 0))
            if answer.error_code:
                raise BusError(ErrorCode.of(answer.error_code), "InitProducerId")
            self._identity = answer.producer_id, answer.producer_epoch
        producer_id, epoch = self._identity
        data = build_batch(
            records, producer_id=producer_id, producer_epoch=epoch,
            base_sequence=self._sequences.get(place, 0),
        )  # fmt: skip
        topic = self._site.view.topics[place.topic]
        leader = next(one.leader for one in topic.partitions if one.index == place.partition)
        request = ProduceRequest(None, -1, REQUEST_TIMEOUT_MS, [
            TopicProduceData(
                place.topic, topic.topic_id,
                partition_data=[PartitionProduceData(place.partition, data)],
            )
        ])  # fmt: skip
        answer = self._client.request_node(leader, ApiKey.PRODUCE, request)
        return answer.responses[0].partition_responses[0]

    def _find_leader(self) -> None:
        try:
            self._site.refresh()
        except BusError:
            return
