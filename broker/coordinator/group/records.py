"""The records of `__consumer_offsets`, in Kafka's own formats.

Encodes and decodes the stored state of groups and committed offsets. Kafka: OffsetCommitKey/Value,
GroupMetadataKey/Value.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from broker.coordinator.topic import CoordinatorTopic
from bus.errors import ErrorCode
from bus.protocol.generated.group_records import (
    GROUP_METADATA_KEY_ENCODERS,
    GROUP_METADATA_VALUE_DECODERS,
    GROUP_METADATA_VALUE_ENCODERS,
    KEYS,
    OFFSET_COMMIT_KEY_ENCODERS,
    OFFSET_COMMIT_VALUE_DECODERS,
    OFFSET_COMMIT_VALUE_ENCODERS,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from bus.protocol.record_framing import (
    decode_versioned,
    encode_key,
    encode_versioned,
    version_of,
)

OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_COMMIT_KIND = 1
GROUP_METADATA_KIND = 2
KIND_BYTES = 2
"""The kind of a key, before the key itself."""
GROUP_METADATA_VALUE_VERSION = 3
OFFSET_COMMIT_VALUE_VERSION = 3


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member of a stable generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group between rebalances: empty, or stable with its members."""

    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...] = ()


class CommittedOffset(Struct, frozen=True, gc=False):
    """A group's position in one partition. A partition may hold a million: the garbage collector
    need not look at them."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """The group's newest stored state; None is its tombstone."""

    group_id: str
    value: StoredGroup | None


class OffsetRecord(Struct, frozen=True, gc=False):
    """The newest offset of a group in a partition; None is its tombstone."""

    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


CoordinatorRecord = GroupRecord | OffsetRecord


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the record in the log."""
    if isinstance(record, OffsetRecord):
        return _encode_offset(record)
    return _encode_group(record)


def decode(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """The record, or None for a kind this coordinator does not know (a later Kafka's)."""
    row = KEYS.get(version_of(key))
    if row is None:
        return None
    known, _ = row[1][0](key, KIND_BYTES)
    if isinstance(known, OffsetCommitKey | LegacyOffsetCommitKey):
        return OffsetRecord(known.group, known.topic, known.partition, _offset(value))
    if isinstance(known, GroupMetadataKey):
        return GroupRecord(known.group, _group(value))
    return None


def _encode_offset(record: OffsetRecord) -> tuple[bytes, bytes | None]:
    key = encode_key(
        OFFSET_COMMIT_KIND,
        OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition),
        OFFSET_COMMIT_KEY_ENCODERS,
    )
    held = record.value
    if held is None:
        return key, None
    value = OffsetCommitValue(
        offset=held.offset,
        leader_epoch=held.leader_epoch,
        metadata=held.metadata,
        commit_timestamp=held.commit_timestamp_ms,
        expire_timestamp=held.expire_timestamp_ms,
    )
    # Only version 1 of the value has room for an expiry time of its own (OffsetCommit 2-4).
    version = OFFSET_COMMIT_VALUE_VERSION if held.expire_timestamp_ms == -1 else 1
    return key, encode_versioned(value, version, OFFSET_COMMIT_VALUE_ENCODERS)


def _encode_group(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key = encode_key(
        GROUP_METADATA_KIND, GroupMetadataKey(group=record.group_id), GROUP_METADATA_KEY_ENCODERS
    )
    held = record.value
    if held is None:
        return key, None
    value = GroupMetadataValue(
        protocol_type=held.protocol_type or "",
        generation=held.generation,
        protocol=held.protocol_name,
        leader=held.leader,
        current_state_timestamp=held.state_timestamp_ms,
        members=[_encode_member(member) for member in held.members],
    )
    return key, encode_versioned(
        value, GROUP_METADATA_VALUE_VERSION, GROUP_METADATA_VALUE_ENCODERS
    )


def _encode_member(member: StoredMember) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _offset(data: bytes | None) -> CommittedOffset | None:
    if data is None:
        return None
    value, _ = decode_versioned(data, OFFSET_COMMIT_VALUE_DECODERS)
    return CommittedOffset(  # by position: by name takes three times as long
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp,
        value.expire_timestamp,
    )  # fmt: skip


def _group(data: bytes | None) -> StoredGroup | None:
    if data is None:
        return None
    value, _ = decode_versioned(data, GROUP_METADATA_VALUE_DECODERS)
    return StoredGroup(
        protocol_type=value.protocol_type or None,
        generation=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout,
                session_timeout_ms=member.session_timeout,
                subscription=bytes(member.subscription),
                assignment=bytes(member.assignment),
            )
            for member in value.members
        ),
    )


OFFSETS: CoordinatorTopic[CoordinatorRecord] = CoordinatorTopic(
    name=OFFSETS_TOPIC,
    encode=encode,
    decode=decode,
    client_errors={
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    },
    loss="the groups and committed offsets written there are not known any more, groups go on from "
    "what was committed before",
)
"""The topic of the group coordinator."""
