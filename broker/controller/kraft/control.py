"""The quorum's own records: LeaderChange, KRaftVersion, Voters, and a snapshot's first and last.

In: voters and leaders as this room knows them. Out: values of Kafka's control records, and back.
Never: batches (the log makes them) and what a record means for the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from bus.protocol.generated import raft_records
from bus.protocol.wire import Buffer, ProtocolError, Write
from bus.records.control import ControlType, control_key
from bus.records.record import Record

KRAFT_VERSION_LEVEL = 1


def leader_change(leader_id: int, voters: Sequence[int], granting: Sequence[int]) -> bytes:
    """In version 0, the only one that Kafka's dump tool reads; directory ids are in the voters."""
    message = raft_records.LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[raft_records.LeaderChangeMessageVoter(voter_id=one) for one in voters],
        granting_voters=[raft_records.LeaderChangeMessageVoter(voter_id=one) for one in granting],
    )
    return _encode(message, raft_records.LEADER_CHANGE_MESSAGE_ENCODERS[0])


def kraft_version(level: int = KRAFT_VERSION_LEVEL) -> bytes:
    """That voters are kept in the log (1) or in the configuration (0)."""
    message = raft_records.KRaftVersionRecord(version=0, kraft_version=level)
    return _encode(message, raft_records.KRAFT_VERSION_RECORD_ENCODERS[0])


def voters_record(voters: VoterSet) -> bytes:
    """The voters from here on."""
    message = raft_records.VotersRecord(
        version=0, voters=[_listed(voter) for voter in voters.voters]
    )
    return _encode(message, raft_records.VOTERS_RECORD_ENCODERS[0])


def _listed(voter: Voter) -> raft_records.VotersRecordVoter:
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
            tuple(Endpoint(end.host, end.port, end.name) for end in listed.endpoints),
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
    """The last record of a snapshot; one without it was cut off."""
    message = raft_records.SnapshotFooterRecord(version=0)
    return _encode(message, raft_records.SNAPSHOT_FOOTER_RECORD_ENCODERS[0])


def record(kind: ControlType, value: bytes, timestamp_ms: int) -> Record:
    """A control record."""
    return Record(control_key(kind), value, timestamp_ms=timestamp_ms)


def _encode(message: Any, encode: Callable[[Any, Write], None]) -> bytes:
    chunks: list[Buffer] = []
    encode(message, chunks.append)
    return b"".join(chunks)
