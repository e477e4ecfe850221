"""Requests and responses of a simulated client, independent of the codec.

In: what a client wants. Out: request bodies for its connection, answers as plain values, batches as
bytes. `OwnDialect` uses the product's codec and builds batches with it; `kio_dialect.Kio` shares
neither with the broker, so that an error on both sides of one codec is found.
Never: when to send what to whom, or what an answer means for the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from bus.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from bus.protocol.generated.init_producer_id import InitProducerIdRequest
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.batch import RecordsError, check_crc, iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record
from tests.simulation.network import ProcessNetwork
from tests.simulation.wire import OwnWire, WireConnection, WireError

PRODUCE_TIMEOUT_MS = 3000
FETCH_WAIT_MS = 400
FETCH_MAX_BYTES, PARTITION_MAX_BYTES = 1 << 20, 1 << 18
TRANSACTION_TIMEOUT_MS = 60_000


class ListedBroker(NamedTuple):
    """A broker as Metadata names it."""

    node_id: int
    host: str
    port: int


class ListedPartition(NamedTuple):
    """A partition as Metadata names it."""

    index: int
    leader_id: int
    leader_epoch: int


class ListedTopic(NamedTuple):
    """A topic as Metadata names it."""

    name: str
    topic_id: bytes
    error_code: int
    partitions: list[ListedPartition]


class ListedMetadata(NamedTuple):
    """An answer to Metadata."""

    brokers: list[ListedBroker]
    controller_id: int
    topics: list[ListedTopic]


class ProducerId(NamedTuple):
    """An answer to InitProducerId."""

    error_code: int
    producer_id: int
    epoch: int


class Produced(NamedTuple):
    """An answer to Produce of one batch."""

    error_code: int
    base_offset: int


class FoundOffset(NamedTuple):
    """An answer to ListOffsets of one partition."""

    error_code: int
    offset: int


class Fetched(NamedTuple):
    """An answer to Fetch of one partition; `diverging_end` is -1 where nothing diverges."""

    error_code: int
    diverging_end: int
    log_start_offset: int
    high_watermark: int
    data: bytes


class Batch(NamedTuple):
    """A batch as a reader sees it; values by offset, none of a control batch."""

    end_offset: int
    leader_epoch: int
    records: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """The partition that a client reads or writes."""

    topic: str
    topic_id: bytes
    index: int


class Dialect(Protocol):
    """One codec with its record format."""

    async def open(
        self, network: ProcessNetwork, host: str, port: int, name: str
    ) -> WireConnection: ...

    def metadata(self, names: Sequence[str]) -> Any: ...
    def read_metadata(self, answer: Any) -> ListedMetadata: ...
    def init_producer_id(self) -> Any: ...
    def read_producer_id(self, answer: Any) -> ProducerId: ...
    def produce(self, place: PartitionRef, acks: int, batch: bytes) -> Any: ...
    def read_produced(self, answer: Any) -> Produced: ...
    def list_offsets(self, place: PartitionRef, timestamp: int) -> Any: ...
    def read_found(self, answer: Any) -> FoundOffset: ...
    def fetch(self, place: PartitionRef, offset: int, epoch: int, last_epoch: int) -> Any: ...
    def read_fetched(self, answer: Any) -> Fetched: ...
    def build(
        self, values: Sequence[str], key: bytes, now_ms: int, writer: tuple[int, int, int]
    ) -> bytes: ...
    def batches(self, data: bytes) -> list[Batch]: ...


class OwnDialect:
    """The product's codec and batches, in the newest versions of both sides."""

    async def open(self, network: ProcessNetwork, host: str, port: int, name: str) -> WireConnection:
        """Connects and gets the broker's API versions."""
        return await OwnWire.open(network, host, port, name)

    def metadata(self, names: Sequence[str]) -> Any:
        """Requests topics without creating them."""
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
        )

    def read_metadata(self, answer: Any) -> ListedMetadata:
        """What it says."""
        return ListedMetadata(
            [ListedBroker(one.node_id, one.host, one.port) for one in answer.brokers],
            answer.controller_id,
            [
                ListedTopic(
                    topic.name,
                    topic.topic_id,
                    topic.error_code,
                    [
                        ListedPartition(one.partition_index, one.leader_id, one.leader_epoch)
                        for one in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
        )

    def init_producer_id(self) -> Any:
        """For an idempotent producer."""
        return InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

    def read_producer_id(self, answer: Any) -> ProducerId:
        """What it says."""
        return ProducerId(answer.error_code, answer.producer_id, answer.producer_epoch)

    def produce(self, place: PartitionRef, acks: int, batch: bytes) -> Any:
        """One batch."""
        data = PartitionProduceData(index=place.index, records=batch)
        return ProduceRequest(
            acks=acks,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(name=place.topic, topic_id=place.topic_id, partition_data=[data])
            ],
        )

    def read_produced(self, answer: Any) -> Produced:
        """What it says of the one batch."""
        result = answer.responses[0].partition_responses[0]
        return Produced(result.error_code, result.base_offset)

    def list_offsets(self, place: PartitionRef, timestamp: int) -> Any:
        """As a consumer."""
        ask = ListOffsetsPartition(partition_index=place.index, timestamp=timestamp)
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[ListOffsetsTopic(name=place.topic, partitions=[ask])],
        )

    def read_found(self, answer: Any) -> FoundOffset:
        """What it says of the one partition."""
        found = answer.topics[0].partitions[0]
        return FoundOffset(found.error_code, found.offset)

    def fetch(self, place: PartitionRef, offset: int, epoch: int, last_epoch: int) -> Any:
        """One partition, without a session."""
        ask = FetchPartition(
            partition=place.index,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=PARTITION_MAX_BYTES,
        )
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_MAX_BYTES, session_epoch=-1,
            topics=[FetchTopic(topic=place.topic, topic_id=place.topic_id, partitions=[ask])],
        )  # fmt: skip

    def read_fetched(self, answer: Any) -> Fetched:
        """What it says of the one partition."""
        if answer.error_code:
            return Fetched(answer.error_code, -1, -1, -1, b"")
        one = answer.responses[0].partitions[0]
        diverging = -1 if one.diverging_epoch is None else one.diverging_epoch.end_offset
        return Fetched(
            one.error_code, diverging, one.log_start_offset, one.high_watermark,
            bytes(one.records or b""),
        )  # fmt: skip

    def build(
        self, values: Sequence[str], key: bytes, now_ms: int, writer: tuple[int, int, int]
    ) -> bytes:
        """A batch; `writer` is producer id, epoch and first sequence, -1 each for none."""
        records = [Record(value=value.encode(), key=key, timestamp_ms=now_ms) for value in values]
        producer_id, epoch, sequence = writer
        return bytes(
            build_batch(
                records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
            )
        )

    def batches(self, data: bytes) -> list[Batch]:
        """The whole batches of an answer. Raises WireError where a checksum is wrong."""
        found = []
        for at, header in iter_batches(data):
            whole = data[at : at + header.size_bytes]
            try:
                check_crc(whole)
            except RecordsError as error:
                raise WireError(str(error)) from None
            records = [
                (one.offset, bytes(one.value or b"").decode())
                for one in (read_records(whole) if not header.is_control else ())
            ]
            found.append(Batch(header.end_offset, header.partition_leader_epoch, records))
        return found


OWN = OwnDialect()
