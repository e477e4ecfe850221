"""The quorum's control records (LeaderChange, KRaftVersion, Voters, a snapshot's first and last),
and stored batches of the metadata log, decoded.

Pure: values of Kafka's control records and back, bytes of whole batches to `StoredBatch`es. Batches
are built by the log; what a record means is the Raft core's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from bus.protocol.generated import raft_records
from bus.protocol.record_framing import decode_metadata_record
from bus.protocol.wire import Buffer, ProtocolError, Write
from bus.records.batch import BatchHeader, iter_batches
from bus.records.control import ControlType, control_key, control_type
from bus.records.read import read_records
from bus.records.record import Record

KRAFT_VERSION_LEVEL = 1


def leader_change(leader_id: int, voters: Sequence[int], granting: Sequence[int]) -> bytes:
    """Version 0, the only one that Kafka's dump tool reads; directory ids are in the voters
    record."""
    message = raft_records.LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[raft_records.LeaderChangeMessageVoter(voter_id=one) for one in voters],
        granting_voters=[raft_records.LeaderChangeMessageVoter(voter_id=one) for one in granting],
    )
    return _encode(message, raft_records.LEADER_CHANGE_MESSAGE_ENCODERS[0])


def kraft_version(level: int = KRAFT_VERSION_LEVEL) -> bytes:
    """Whether the voters are in the log (1) or in the configuration (0)."""
    message = raft_records.KRaftVersionRecord(version=0, kraft_version=level)
    return _encode(message, raft_records.KRAFT_VERSION_RECORD_ENCODERS[0])


def voters_record(voters: VoterSet) -> bytes:
    """The voters from here on."""
    message = raft_records.VotersRecord(
        version=0, voters=[_voter_record(voter) for voter in voters.voters]
    )
    return _encode(message, raft_records.VOTERS_RECORD_ENCODERS[0])


def _voter_record(voter: Voter) -> raft_records.VotersRecordVoter:
    return raft_records.VotersRecordVoter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[
            raft_records.Endpoint(name=end.listener, host=end.host, port=end.port)
            for end in voter.endpoints
        ],
        kraft_version_feature=raft_records.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=voter.max_kraft_version
        ),
    )


def read_voters(value: Buffer) -> VoterSet:
    """The voters in a VotersRecord's value."""
    message, _ = raft_records.VOTERS_RECORD_DECODERS[0](value, 0)
    if len({listed.voter_id for listed in message.voters}) != len(message.voters):
        raise ProtocolError("a VotersRecord names a voter twice")
    return VoterSet.of(
        Voter(
            ReplicaKey(listed.voter_id, listed.voter_directory_id),
            tuple(VoterEndpoint(end.host, end.port, end.name) for end in listed.endpoints),
            listed.kraft_version_feature.max_supported_version,
        )
        for listed in message.voters
    )


def snapshot_header(last_contained_ms: int) -> bytes:
    """The first record of a snapshot."""
    message = raft_records.SnapshotHeaderRecord(
        version=0, last_contained_log_timestamp=last_contained_ms
    )
    return _encode(message, raft_records.SNAPSHOT_HEADER_RECORD_ENCODERS[0])


def snapshot_footer() -> bytes:
    """The last record of a snapshot; a file without it is truncated."""
    message = raft_records.SnapshotFooterRecord(version=0)
    return _encode(message, raft_records.SNAPSHOT_FOOTER_RECORD_ENCODERS[0])


def control_record(kind: ControlType, value: bytes, timestamp_ms: int) -> Record:
    """A control record."""
    return Record(control_key(kind), value, timestamp_ms=timestamp_ms)


def _encode(message: Any, encode: Callable[[Any, Write], None]) -> bytes:
    chunks: list[Buffer] = []
    encode(message, chunks.append)
    return b"".join(chunks)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch. `records` are metadata records; control batches have `kinds` and `voters`
    instead."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[object, ...] = ()
    kinds: tuple[ControlType, ...] = ()
    voters: VoterSet | None = None


def decode_batches(data: bytes | memoryview) -> Iterator[StoredBatch]:
    """Decodes every batch in `data`."""
    for at, header in iter_batches(data):
        if header.is_control:
            yield _decode_control_batch(data, at, header)
            continue
        records = tuple(
            decode_metadata_record(record.value or b"")[0] for record in read_records(data, at)
        )
        yield StoredBatch(
            header.base_offset, header.last_offset, header.partition_leader_epoch,
            header.max_timestamp, records,
        )  # fmt: skip


def voters_in(data: bytes | memoryview) -> Iterator[tuple[int, VoterSet]]:
    """(offset, voters) of the VotersRecords in `data`; data batches are skipped."""
    for at, header in iter_batches(data):
        if header.is_control:
            batch = _decode_control_batch(data, at, header)
            if batch.voters is not None:
                yield batch.last_offset, batch.voters


def _decode_control_batch(data: bytes | memoryview, at: int, header: BatchHeader) -> StoredBatch:
    kinds = []
    voters = None
    for record in read_records(data, at):
        kind = control_type(record.key)
        kinds.append(kind)
        if kind is ControlType.KRAFT_VOTERS:
            voters = read_voters(record.value or b"")
    return StoredBatch(
        header.base_offset, header.last_offset, header.partition_leader_epoch,
        header.max_timestamp, kinds=tuple(kinds), voters=voters,
    )  # fmt: skip
