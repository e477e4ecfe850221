"""`__cluster_metadata-0`: where decisions are stored, one batch each, in Kafka's own records.

In: records. Out: the offsets they got, and at start every record stored before.
Never: what a record means; `MetadataDelta` knows. This is the quorum of a single voter: it elects
itself at each start under a new epoch and what it has flushed is committed. The many-voter quorum
takes its place behind the same three methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from broker.clock.port import Clock
from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.kraft import quorum_state
from broker.controller.kraft.quorum_state import QuorumState
from broker.disk.port import Disk
from broker.log.log import Log
from broker.log.records_in import Origin
from broker.metadata.versions import MIN_LEVEL, record_version
from bus.errors import check
from bus.protocol.generated import raft_records
from bus.protocol.records_meta import Message as ControlMessage
from bus.protocol.records_meta import decode_metadata_record, encode_metadata_record
from bus.protocol.wire import Buffer, Write
from bus.records.batch import header_at
from bus.records.build import build_batch
from bus.records.control import ControlType, control_batch
from bus.records.read import read_all
from bus.records.record import Record

TOPIC = "__cluster_metadata"
DIRECTORY = f"{TOPIC}-0"
READ_BYTES = 1024 * 1024
KRAFT_VERSION_LEVEL = 1

@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One decision as it was stored; control batches are not handed out."""

    last_offset: int
    epoch: int
    records: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class VoterIdentity:
    """This voter: node id, directory id and where its controller listener would be."""

    node_id: int
    directory_id: bytes
    host: str
    port: int


class MetadataLog:
    """The log and its epoch.

    Invariant: every batch appended in this life carries `epoch`, and `epoch` is larger than that
    of every life before.
    """

    def __init__(self, root: str, *, disk: Disk, clock: Clock, config: BrokerConfig) -> None:
        self._disk = disk
        self._clock = clock
        self._state_path = f"{root}/{DIRECTORY}/{quorum_state.FILE_NAME}"
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(config["metadata.log.segment.bytes"]),
            "segment.ms": str(config["metadata.log.segment.ms"]),
        }
        self._log = Log.open(
            f"{root}/{DIRECTORY}",
            disk=disk,
            config=TopicConfig.of(config, settings),
            now_ms=clock.now_ms(),
        )
        self.epoch = 0

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._log.end_offset

    def read_all(self) -> Iterator[StoredBatch]:
        """Every stored decision from the start, in order."""
        offset = self._log.log_start_offset
        while offset < self._log.end_offset:
            data = self._log.read(offset, READ_BYTES).data
            check(len(data), "a log below its end has data")
            yield from _decisions(bytes(data))
            offset = _end_offset(data)

    def become_leader(self, voter: VoterIdentity) -> None:
        """Elect this voter under a new epoch and say so in the log."""
        state = self._read_state()
        self.epoch = max(state.leader_epoch, self._log.latest_epoch) + 1
        first_life = self._log.end_offset == 0
        voted = QuorumState(voter.node_id, self.epoch, voter.node_id, voter.directory_id)
        self._disk.replace_text_durably(self._state_path, quorum_state.encode(voted))
        self._append_control(ControlType.LEADER_CHANGE, _leader_change(voter))
        if first_life:
            self._append_control(ControlType.KRAFT_VERSION, _kraft_version())
            self._append_control(ControlType.KRAFT_VOTERS, _voters(voter))
        self._log.flush()

    def append(self, records: Sequence[object], level: int = MIN_LEVEL) -> int:
        """Store one decision in the records of a level of metadata.version; durable when this
        returns. The offset of its last record."""
        now_ms = self._clock.now_ms()
        batch = build_batch(
            [
                Record(
                    None,
                    encode_metadata_record(record, record_version(type(record).__name__, level)),
                    timestamp_ms=now_ms,
                )
                for record in records
            ]
        )
        last_offset = self._append(batch)
        self._log.flush()
        return last_offset

    def close(self) -> None:
        """Flush and close the files."""
        self._log.close()

    @property
    def size_bytes(self) -> int:
        """What the log occupies on disk."""
        return self._log.size_bytes

    def _append_control(self, kind: ControlType, value: bytes) -> None:
        self._append(control_batch(kind, value, timestamp_ms=self._clock.now_ms()))

    def _append(self, batch: bytearray) -> int:
        info = self._log.append(
            batch,
            leader_epoch=self.epoch,
            now_ms=self._clock.now_ms(),
            origin=Origin.RAFT_LEADER,
        )
        self._log.advance_high_watermark(info.last_offset + 1)
        return info.last_offset

    def _read_state(self) -> QuorumState:
        if not self._disk.exists(self._state_path):
            return QuorumState()
        return quorum_state.decode(self._disk.read_text(self._state_path))


def _decisions(data: bytes) -> Iterator[StoredBatch]:
    """The data batches in `data`, records decoded."""
    last_offset, epoch, records = -1, 0, list[object]()
    for header, record in read_all(data):
        if header.is_control:
            continue
        if header.last_offset != last_offset and records:
            yield StoredBatch(last_offset, epoch, tuple(records))
            records = []
        last_offset, epoch = header.last_offset, header.partition_leader_epoch
        records.append(decode_metadata_record(record.value or b"")[0])
    if records:
        yield StoredBatch(last_offset, epoch, tuple(records))


def _end_offset(data: bytes | memoryview) -> int:
    end = 0
    offset = 0
    while offset < len(data):
        header = header_at(data, offset)
        end = header.last_offset + 1
        offset += header.size_bytes
    return end


def _leader_change(voter: VoterIdentity) -> bytes:
    """In version 0, the only one that Kafka's dump tool reads; directory ids are in the voters."""
    seat = raft_records.LeaderChangeMessageVoter(voter_id=voter.node_id)
    message = raft_records.LeaderChangeMessage(
        version=0, leader_id=voter.node_id, voters=[seat], granting_voters=[seat]
    )
    return _encode(message, raft_records.LEADER_CHANGE_MESSAGE_ENCODERS[0])


def _kraft_version() -> bytes:
    message = raft_records.KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION_LEVEL)
    return _encode(message, raft_records.KRAFT_VERSION_RECORD_ENCODERS[0])


def _voters(voter: VoterIdentity) -> bytes:
    listed = raft_records.VotersRecordVoter(
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        endpoints=[
            raft_records.Endpoint(name="CONTROLLER", host=voter.host, port=voter.port)
        ],
        kraft_version_feature=raft_records.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=KRAFT_VERSION_LEVEL
        ),
    )
    message = raft_records.VotersRecord(version=0, voters=[listed])
    return _encode(message, raft_records.VOTERS_RECORD_ENCODERS[0])


def _encode(message: ControlMessage, encode: Callable[[ControlMessage, Write], None]) -> bytes:
    chunks: list[Buffer] = []
    encode(message, chunks.append)
    return b"".join(chunks)
