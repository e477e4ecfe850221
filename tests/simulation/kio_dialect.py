"""A client built on `kio`: its messages, its batches, and frames built here.

In: what a client wants. Out: kio's messages. Never: a line of the product's codec. Versions use
topic names where the product's client, in the newest version, uses topic ids: both are covered.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v11.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i32Timedelta, i64

from tests.simulation import dialect
from tests.simulation.dialect import PartitionRef
from tests.simulation.kio_wire import KioWire
from tests.simulation.network import ProcessNetwork
from tests.simulation.wire import WireConnection, WireError

CONTROL = 0x20


def _ms(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=count))


class Kio:
    """The dialect of `kio`."""

    async def open(self, network: ProcessNetwork, host: str, port: int, name: str) -> WireConnection:
        """Connects without negotiating versions."""
        return await KioWire.open(network, host, port, name)

    def metadata(self, names: Sequence[str]) -> Any:
        """Requests topics without creating them."""
        return MetadataRequest(
            topics=tuple(
                MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in names
            ),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    def read_metadata(self, answer: Any) -> dialect.ListedMetadata:
        """What it says."""
        return dialect.ListedMetadata(
            [dialect.ListedBroker(one.node_id, one.host, one.port) for one in answer.brokers],
            answer.controller_id,
            [
                dialect.ListedTopic(
                    topic.name,
                    topic.topic_id.bytes if topic.topic_id else bytes(16),
                    int(topic.error_code),
                    [
                        dialect.ListedPartition(one.partition_index, one.leader_id, one.leader_epoch)
                        for one in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
        )

    def init_producer_id(self) -> Any:
        """For an idempotent producer."""
        return InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout=_ms(dialect.TRANSACTION_TIMEOUT_MS),
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        )

    def read_producer_id(self, answer: Any) -> dialect.ProducerId:
        """What it says."""
        return dialect.ProducerId(int(answer.error_code), answer.producer_id, answer.producer_epoch)

    def produce(self, place: PartitionRef, acks: int, batch: bytes) -> Any:
        """One batch."""
        data = PartitionProduceData(index=i32(place.index), records=batch)
        topic = TopicProduceData(name=TopicName(place.topic), partition_data=(data,))
        return ProduceRequest(
            transactional_id=None,
            acks=i16(acks),
            timeout=_ms(dialect.PRODUCE_TIMEOUT_MS),
            topic_data=(topic,),
        )

    def read_produced(self, answer: Any) -> dialect.Produced:
        """What it says of the one batch."""
        result = answer.responses[0].partition_responses[0]
        return dialect.Produced(int(result.error_code), result.base_offset)

    def list_offsets(self, place: PartitionRef, timestamp: int) -> Any:
        """As a consumer."""
        ask = ListOffsetsPartition(partition_index=i32(place.index), timestamp=i64(timestamp))
        return ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=(ListOffsetsTopic(name=TopicName(place.topic), partitions=(ask,)),),
        )

    def read_found(self, answer: Any) -> dialect.FoundOffset:
        """What it says of the one partition."""
        found = answer.topics[0].partitions[0]
        return dialect.FoundOffset(int(found.error_code), found.offset)

    def fetch(self, place: PartitionRef, offset: int, epoch: int, last_epoch: int) -> Any:
        """One partition, without a session."""
        ask = FetchPartition(
            partition=i32(place.index),
            current_leader_epoch=i32(epoch),
            fetch_offset=i64(offset),
            last_fetched_epoch=i32(last_epoch),
            partition_max_bytes=i32(dialect.PARTITION_MAX_BYTES),
        )
        return FetchRequest(
            replica_id=BrokerId(-1),
            max_wait=_ms(dialect.FETCH_WAIT_MS),
            min_bytes=i32(1),
            max_bytes=i32(dialect.FETCH_MAX_BYTES),
            isolation_level=i8(0),
            topics=(FetchTopic(topic=TopicName(place.topic), partitions=(ask,)),),
            forgotten_topics_data=(),
        )

    def read_fetched(self, answer: Any) -> dialect.Fetched:
        """What it says of the one partition."""
        if answer.error_code:
            return dialect.Fetched(int(answer.error_code), -1, -1, -1, b"")
        one = answer.responses[0].partitions[0]
        return dialect.Fetched(
            int(one.error_code),
            one.diverging_epoch.end_offset,
            one.log_start_offset,
            one.high_watermark,
            bytes(one.records or b""),
        )

    def build(
        self, values: Sequence[str], key: bytes, now_ms: int, writer: tuple[int, int, int]
    ) -> bytes:
        """A batch; `writer` is producer id, epoch and first sequence, -1 each for none."""
        moment = TZAwareMicros.parse(datetime.fromtimestamp(now_ms // 1000, UTC))
        records = tuple(
            Record(
                attributes=i8(0),
                timestamp=moment,
                offset=i64(index),
                key=key,
                value=value.encode(),
                headers=(),
            )
            for index, value in enumerate(values)
        )
        producer_id, epoch, sequence = writer
        with io.BytesIO() as out:
            write_new_batch(
                out,
                NewRecordBatch(
                    producer_id=i64(producer_id),
                    producer_epoch=i16(epoch),
                    base_sequence=i32(sequence),
                    records=records,
                    attributes=i16(0),
                ),
            )
            return out.getvalue()

    def batches(self, data: bytes) -> list[dialect.Batch]:
        """The whole batches of an answer. Raises WireError where kio cannot read one."""
        found, at = [], 0
        while at < len(data):
            try:
                batch, size = read_batch(data, at)
            except (ValueError, EOFError) as error:
                raise WireError(f"kio: {error}") from None
            at += size
            is_data = not batch.attributes & CONTROL
            records = [(one.offset, bytes(one.value or b"").decode()) for one in batch.records]
            found.append(
                dialect.Batch(
                    batch.base_offset + batch.last_offset_delta + 1,
                    batch.partition_leader_epoch,
                    records if is_data else [],
                )
            )
        return found


KIO = Kio()
