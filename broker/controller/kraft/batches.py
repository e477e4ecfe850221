"""Stored batches of the metadata log, decoded.

In: bytes of whole batches. Out: `StoredBatch`es, data and control alike. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.controller.kraft.control import read_voters
from broker.controller.kraft.voters import VoterSet
from bus.protocol.records_meta import decode_metadata_record
from bus.records.batch import BatchHeader, iter_batches
from bus.records.control import ControlType, control_type
from bus.records.read import read_records


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch. `records` are metadata records; of a control batch `kinds` and `voters` say."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[object, ...] = ()
    kinds: tuple[ControlType, ...] = ()
    voters: VoterSet | None = None


def decoded(data: bytes | memoryview) -> Iterator[StoredBatch]:
    """Every batch in `data`."""
    for at, header in iter_batches(data):
        if header.is_control:
            yield _control(data, at, header)
            continue
        records = tuple(
            decode_metadata_record(record.value or b"")[0] for record in read_records(data, at)
        )
        yield StoredBatch(
            header.base_offset, header.last_offset, header.partition_leader_epoch,
            header.max_timestamp, records,
        )  # fmt: skip


def voters_in(data: bytes | memoryview) -> Iterator[tuple[int, VoterSet]]:
    """(offset, voters) of the VotersRecords in `data`; data batches are not looked into."""
    for at, header in iter_batches(data):
        if header.is_control:
            batch = _control(data, at, header)
            if batch.voters is not None:
                yield batch.last_offset, batch.voters


def _control(data: bytes | memoryview, at: int, header: BatchHeader) -> StoredBatch:
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
