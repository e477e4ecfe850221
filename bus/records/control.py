"""Control batches: the one-record batches with which brokers mark transactions and raft events.

In: a type and the marker's value. Out: a batch; or the type of a control record's key.
Never: the value's own codec; it is generated (`bus.protocol.generated`).
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError

from bus.errors import ErrorCode
from bus.records.batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Buffer,
    RecordsError,
)
from bus.records.build import build_batch
from bus.records.record import Record

_KEY = Struct(">hh")  # version of the key, type
_END_TXN_MARKER = Struct(">hi")  # version of the value, coordinator epoch


class ControlType(IntEnum):
    """What a control record says."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def control_type(key: Buffer | None) -> ControlType:
    """The type in a control record's key; UNKNOWN for one of a later Kafka (consumers skip it)."""
    try:
        version, number = _KEY.unpack_from(key or b"")
    except StructError:
        raise RecordsError(ErrorCode.INVALID_RECORD, "a control record's key is short") from None
    if version < 0:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"control record version {version}")
    return ControlType(number) if number in _KNOWN else ControlType.UNKNOWN


_KNOWN = frozenset(ControlType) - {ControlType.UNKNOWN}


def control_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(0, kind)


def control_batch(
    kind: ControlType,
    value: Buffer,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of one control record."""
    return build_batch(
        [Record(control_key(kind), value, timestamp_ms=timestamp_ms)],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_control=True,
        is_transactional=is_transactional,
    )


def end_txn_marker(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> bytearray:
    """The marker that ends a producer's transaction in a partition."""
    return control_batch(
        ControlType.COMMIT if commit else ControlType.ABORT,
        _END_TXN_MARKER.pack(0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


def coordinator_epoch(value: Buffer | None) -> int:
    """The coordinator epoch in an end-of-transaction marker's value."""
    try:
        version, epoch = _END_TXN_MARKER.unpack_from(value or b"")
    except StructError:
        raise RecordsError(ErrorCode.INVALID_RECORD, "a transaction marker is too short") from None
    if version < 0:
        raise RecordsError(ErrorCode.INVALID_RECORD, f"transaction marker version {version}")
    return int(epoch)
