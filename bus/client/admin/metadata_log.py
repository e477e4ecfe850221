"""The records of a KRaft cluster's metadata, read from its active controller like an observer does.

In: `SyncClient` to ask where the controllers are. Out: `MetadataPage`s of decoded records, up to
the high watermark only. Raises BusError. Never: a vote, a replica's identity (replica id -1), an
opinion about what a record means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bus.client.admin import queries
from bus.client.model import QuorumDescription, StoredRecord
from bus.client.wire.one_fetch import fetched
from bus.client.wire.ports import Address
from bus.client.wire.sync_client import SyncClient, SyncConnection
from bus.errors import BusError, ErrorCode
from bus.limits import METADATA_PAGE_BYTES, METADATA_SNAPSHOT_BYTES
from bus.protocol.apis import ApiKey
from bus.protocol.generated import fetch, fetch_snapshot
from bus.protocol.record_framing import decode_metadata_record
from bus.protocol.wire import ProtocolError
from bus.records.batch import iter_batches
from bus.records.read import read_records

TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's own id of `__cluster_metadata`, the same in every cluster."""


@dataclass(frozen=True, slots=True)
class MetadataPage:
    """What came next. `snapshot`: these are the whole state, what was known before is void."""

    records: tuple[StoredRecord, ...]
    snapshot: bool
    end_offset: int
    high_watermark: int


class MetadataLogReader:
    """Reads on from where it was. Invariant: `_offset` is the next record that is not known."""

    def __init__(self, nodes: SyncClient) -> None:
        self._nodes = nodes
        self._offset = 0
        self._epoch = 0
        self._controller: SyncConnection | None = None
        self._quorum: QuorumDescription | None = None

    def read(self) -> MetadataPage:
        """The next records; an empty page when there is nothing new."""
        try:
            return self._read()
        except BusError:
            self.close()  # the controller may have moved: the next read asks again
            raise

    def close(self) -> None:
        """Hang up; `read` would connect again."""
        if self._controller is not None:
            self._controller.close()
        self._controller = None

    def _read(self) -> MetadataPage:
        connection, quorum = self._connected()
        part = self._fetched(connection, quorum)
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or part.diverging_epoch is not None:
            self._offset, self._epoch = 0, 0
            return MetadataPage((), True, 0, part.high_watermark)
        queries.raise_for_error(part.error_code, "the active controller")
        if part.snapshot_id is not None and part.snapshot_id.end_offset >= 0:
            return self._snapshot(connection, quorum, part.snapshot_id)
        whole = self._offset == 0
        records = tuple(self._committed(bytes(fetched(part.records)), part.high_watermark))
        return MetadataPage(records, whole and bool(records), self._offset, part.high_watermark)

    def _connected(self) -> tuple[SyncConnection, QuorumDescription]:
        if self._controller is not None and self._quorum is not None:
            return self._controller, self._quorum
        quorum = queries.quorum(self._nodes)
        address = self._leader_address(quorum)
        self._controller, self._quorum = self._nodes.open(address), quorum
        return self._controller, quorum

    def _leader_address(self, quorum: QuorumDescription) -> Address:
        """The controllers' listener; a node of ours that is a cluster by itself has none and
        answers where its clients ask."""
        for _, host, port in quorum.endpoints.get(quorum.leader_id, ()):
            if port > 0:
                return Address(host, port)
        for broker in queries.cluster(self._nodes).brokers:
            if broker.broker_id == quorum.leader_id:
                return Address(broker.host, broker.port)
        raise BusError(
            ErrorCode.LEADER_NOT_AVAILABLE, "the quorum does not say where its leader listens"
        )

    def _fetched(
        self, connection: SyncConnection, quorum: QuorumDescription
    ) -> fetch.PartitionData:
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=quorum.leader_epoch,
            fetch_offset=self._offset,
            last_fetched_epoch=self._epoch,
            log_start_offset=0,
            partition_max_bytes=METADATA_PAGE_BYTES,
        )
        answer = connection.request(
            ApiKey.FETCH,
            fetch.FetchRequest(
                max_bytes=METADATA_PAGE_BYTES,
                topics=[fetch.FetchTopic(queries.METADATA_TOPIC, TOPIC_ID, [partition])],
            ),
        )
        queries.raise_for_error(answer.error_code, "the active controller")
        if not answer.responses or not answer.responses[0].partitions:
            raise BusError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, queries.METADATA_TOPIC)
        return answer.responses[0].partitions[0]

    def _snapshot(
        self, connection: SyncConnection, quorum: QuorumDescription, found: fetch.SnapshotId
    ) -> MetadataPage:
        """All of a checkpoint, block by block; METADATA_SNAPSHOT_BYTES at most."""
        data = bytearray()
        size = 1
        while len(data) < size:
            block = self._block(connection, quorum, found, len(data))
            size = block.size
            if size > METADATA_SNAPSHOT_BYTES:
                raise BusError(ErrorCode.RECORD_LIST_TOO_LARGE, f"a checkpoint of {size} bytes")
            new = bytes(fetched(block.unaligned_records))
            if not new:
                raise ProtocolError("a checkpoint ended before its size")
            data += new
        records = tuple(_decoded(bytes(data)))
        self._offset, self._epoch = found.end_offset, found.epoch
        return MetadataPage(records, True, self._offset, self._offset)

    def _block(
        self,
        connection: SyncConnection,
        quorum: QuorumDescription,
        found: fetch.SnapshotId,
        position: int,
    ) -> fetch_snapshot.PartitionSnapshotInResponse:
        partition = fetch_snapshot.PartitionSnapshotInRequest(
            partition=0,
            current_leader_epoch=quorum.leader_epoch,
            snapshot_id=fetch_snapshot.SnapshotIdInRequest(found.end_offset, found.epoch),
            position=position,
        )
        topic = fetch_snapshot.TopicSnapshotInRequest(queries.METADATA_TOPIC, [partition])
        body = fetch_snapshot.FetchSnapshotRequest(max_bytes=METADATA_PAGE_BYTES, topics=[topic])
        answer = connection.request(ApiKey.FETCH_SNAPSHOT, body)
        queries.raise_for_error(answer.error_code, "the active controller")
        block = answer.topics[0].partitions[0]
        queries.raise_for_error(block.error_code, "the active controller")
        return block

    def _committed(self, data: bytes, high_watermark: int) -> Iterator[StoredRecord]:
        """Whole batches below the watermark; what is above may still be taken back."""
        end = 0
        for at, header in iter_batches(data):
            if header.last_offset >= high_watermark:
                break
            end = at + header.size_bytes
            self._offset, self._epoch = header.end_offset, header.partition_leader_epoch
        yield from _decoded(data[:end])


def _decoded(data: bytes) -> Iterator[StoredRecord]:
    for at, header in iter_batches(data):
        if header.is_control:
            continue
        epoch = header.partition_leader_epoch
        for one in read_records(data, at):
            try:
                record: object = decode_metadata_record(one.value or b"")[0]
                kind = type(record).__name__
            except ProtocolError as error:  # of a later Kafka: shown as what it is
                record, kind = str(error), "unknown"
            yield StoredRecord(one.offset, epoch, one.timestamp_ms, kind, record)
