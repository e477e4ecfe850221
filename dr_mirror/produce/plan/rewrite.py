"""A batch of the source made one that an ordinary producer sends. Pure.

In: one sealed batch of the source, who produces it. Out: the same records in a batch with base
offset 0, this producer's id, epoch and sequence, and a CRC of its own. Never: a look inside the
records, but of a batch whose header an ordinary append cannot state; that one is unpacked and
rebuilt, with its codec.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from bus.protocol.wire import Buffer
from bus.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_LEADER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    header_at,
    seal,
)
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import IN_SEQUENCE

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH_AT, _LEADER_EPOCH = 12, Struct(">i")
_ATTRIBUTES_AT, _ATTRIBUTES = 21, Struct(">h")
_PRODUCER_AT, _PRODUCER = 43, Struct(">qhi")  # id, epoch, base sequence
_NOT_OF_A_PRODUCER = LOG_APPEND_TIME | DELETE_HORIZON
SEQUENCES = 1 << 31
"""Sequence numbers wrap at this."""


@dataclass(frozen=True, slots=True)
class BatchProducer:
    """Who produces; a batch `is_transactional` where it is part of a transaction."""

    producer_id: int
    epoch: int
    is_transactional: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProducedBatch:
    """What goes into a Produce request. `first_offset`: the source's of its first record,
    `end_offset`: of what follows the batch there; `is_rebuilt`: it was unpacked."""

    data: bytearray
    first_offset: int
    end_offset: int
    records: int
    is_rebuilt: bool


def produced_batch(
    batch: Buffer, from_offset: int, producer: BatchProducer, base_sequence: int
) -> ProducedBatch | None:
    """The batch of the source for the target, from the source's offset `from_offset` on; None: it
    has no record there.

    Raises RecordsError where a batch that has to be rebuilt cannot be unpacked.
    """
    header = header_at(batch)
    if must_be_rebuilt(header) or header.base_offset < from_offset:
        return _rebuilt(batch, header, from_offset, producer, base_sequence)
    made = bytearray(memoryview(batch)[: header.size_bytes])
    attributes = header.attributes & COMPRESSION_MASK
    if producer.is_transactional:
        attributes |= TRANSACTIONAL
    _BASE_OFFSET.pack_into(made, 0, 0)
    _LEADER_EPOCH.pack_into(made, _LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    _ATTRIBUTES.pack_into(made, _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(made, _PRODUCER_AT, producer.producer_id, producer.epoch, base_sequence)
    seal(made, 0, len(made))
    return ProducedBatch(made, header.base_offset, header.end_offset, header.records_count, False)


def must_be_rebuilt(header: BatchHeader) -> bool:
    """Whether it has holes, a time of its broker, or a delete horizon: brokers refuse all of them
    from a producer."""
    has_holes = header.last_offset_delta + 1 != header.records_count
    return has_holes or bool(header.attributes & _NOT_OF_A_PRODUCER)


def next_sequence(base_sequence: int, records: int) -> int:
    """Of the batch after one of `records` records."""
    return (base_sequence + records) % SEQUENCES


def _rebuilt(
    batch: Buffer,
    header: BatchHeader,
    from_offset: int,
    producer: BatchProducer,
    base_sequence: int,
) -> ProducedBatch | None:
    records = [each for each in read_records(batch) if each.offset >= from_offset]
    if not records:
        return None
    made = build_batch(
        [each._replace(offset=IN_SEQUENCE) for each in records],
        compression=header.compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=base_sequence,
        is_transactional=producer.is_transactional,
    )
    return ProducedBatch(made, records[0].offset, header.end_offset, len(records), True)
