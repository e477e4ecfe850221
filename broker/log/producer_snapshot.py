"""Producer snapshots in Kafka's format: ``<offset>.snapshot`` beside the segments.

In: producer entries. Out: bytes, and entries read back. Never: more than the newest batch of each
producer, as in Kafka. Version 1: version i16, CRC32C u32 over all that follows, count i32, then per
producer: id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64,
coordinator epoch i32, first offset of the open transaction i64 (-1: none).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from broker.log.producer_state import NO_OFFSET, ProducerEntry, Sent

_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class SnapshotDamaged(Exception):
    """The bytes are no producer snapshot; another one or the log itself has to serve."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
    packed = [_pack(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else Sent(-1, NO_OFFSET, 0, entry.last_timestamp_ms)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries in a file; raises SnapshotDamaged and nothing else."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise SnapshotDamaged(f"{len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise SnapshotDamaged(f"version {version}")
    if crc32c(body) != crc:
        raise SnapshotDamaged("the CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    packed = body[_COUNT.size :]
    if count * _ENTRY.size != len(packed):
        raise SnapshotDamaged(f"{count} entries in {len(packed)} bytes")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(packed)]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch)
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.transaction_first_offset = transaction_first_offset
    if last_offset != NO_OFFSET:
        entry.batches.append(Sent(last_sequence, last_offset, offset_delta, timestamp_ms))
    return entry
