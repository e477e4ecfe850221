"""What stands in the columns of a row, and how rows become columns and come back. Pure.

In: rows. Out: cells by column, all of them text: the device's own JSON, what people look for beside
it, and JSON for the rest, so that `hbase shell` shows a record to a person. Never: HBase.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from bus.contracts.video_segments import VideoSegment
from ingest.store.hbase import tables
from ingest.store.hbase.keys import record_id_of
from ingest.store.hbase.ledger import Cell, Ledger
from ingest.store.port import RecordRow, RejectedRow, StoreError

Cells = dict[bytes, bytes]

BODY, KIND, PLATE, CHECKPOINT = b"d:json", b"d:kind", b"d:plate", b"d:checkpoint"
CAPTURED, STORED, ATTEMPT = b"d:captured", b"d:stored", b"d:attempt"
REASON, REST = b"d:reason", b"d:rest"
MARK = (ATTEMPT, STORED)
"""Under which attempt a row was written, and when it was stored first."""
ENTRY, CELL, HEAD = b"d:entry", b"d:cell", b"d:ledger"
SEGMENT, DELETED_SEGMENT = b"d:segment", b"d:deleted"
"""What was said of a piece of film, and that it is deleted: whichever is written last, the latter
holds."""
HEAD_ROW = b"ledger"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class RowReader(Protocol):
    """What the ledger is read through: a connection, or a fake of it."""

    def get(self, table: str, key: bytes) -> Mapping[bytes, bytes]:
        """One row; empty if there is none."""


class Mark(msgspec.Struct, frozen=True):
    """Who wrote a row, and when it was stored first (ms)."""

    attempt: int
    stored_at_ms: int


class IndexEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the index tells of a row, so that only those that match are read. `attempt`: under which
    it was written."""

    attempt: int
    kind: str = ""
    district_id: str = ""
    camera_ip: str = ""
    plate_key: str = ""
    reason: str = ""
    plate_form: str = ""  # of a partly read plate


class _RecordRest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The fields of a record that have no column of their own."""

    captured_at_ms: int
    received_at_ms: int
    district_id: str = ""
    camera_ip: str = ""
    recognizer_ip: str = ""
    plate_key: str = ""
    plate_color: str = ""
    vehicle_color: str = ""
    vehicle_type: str = ""
    vehicle_brand: str = ""
    vehicle_series: str = ""
    picture_url: str = ""
    partly_read: bool = False
    replayed: bool = False
    clock_off_ms: int = 0


class _RejectedRest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The same of a rejected one."""

    received_at_ms: int
    captured_at_ms: int = 0
    field: str = ""
    camera_ip: str = ""
    recognizer_ip: str = ""
    source: str = ""


_entries = msgspec.json.Decoder(IndexEntry)
_record_rests = msgspec.json.Decoder(_RecordRest)
_rejected_rests = msgspec.json.Decoder(_RejectedRest)
_segments = msgspec.json.Decoder(VideoSegment)
_cells = msgspec.json.Decoder(Cell)
_ledgers = msgspec.json.Decoder(Ledger)
encode = msgspec.json.Encoder().encode


def record_columns(row: RecordRow, attempt: int) -> Cells:
    """All columns of a record; `stored_at_ms` is set."""
    return {
        BODY: row.body,
        KIND: row.kind.encode(),
        PLATE: row.plate_number.encode(),
        CHECKPOINT: row.checkpoint_id.encode(),
        CAPTURED: _moment(row.captured_at_ms),
        STORED: _moment(row.stored_at_ms),
        ATTEMPT: b"%d" % attempt,
        REST: encode(_RecordRest(**{name: getattr(row, name) for name in _OF_RECORD})),
    }


def rejected_columns(row: RejectedRow, attempt: int) -> Cells:
    """All columns of a rejected record; `stored_at_ms` is set."""
    return {
        BODY: row.body,
        KIND: row.kind.encode(),
        REASON: row.reason.encode(),
        CHECKPOINT: row.checkpoint_id.encode(),
        STORED: _moment(row.stored_at_ms),
        ATTEMPT: b"%d" % attempt,
        REST: encode(_RejectedRest(**{name: getattr(row, name) for name in _OF_REJECTED})),
    }


_OF_RECORD = _RecordRest.__struct_fields__
_OF_REJECTED = _RejectedRest.__struct_fields__


def record_of(key: bytes, columns: Mapping[bytes, bytes]) -> RecordRow:
    """The record as it was stored first."""
    rest = _decoded(_record_rests, columns[REST])
    return RecordRow(
        record_id=record_id_of(key),
        kind=columns[KIND].decode(),
        plate_number=columns[PLATE].decode(),
        checkpoint_id=columns[CHECKPOINT].decode(),
        stored_at_ms=_moment_of(columns[STORED]),
        body=columns[BODY],
        **{name: getattr(rest, name) for name in _OF_RECORD},
    )


def rejected_of(key: bytes, columns: Mapping[bytes, bytes]) -> RejectedRow:
    """The rejected record as it was kept first."""
    rest = _decoded(_rejected_rests, columns[REST])
    return RejectedRow(
        record_id=record_id_of(key),
        kind=columns[KIND].decode(),
        reason=columns[REASON].decode(),
        checkpoint_id=columns[CHECKPOINT].decode(),
        stored_at_ms=_moment_of(columns[STORED]),
        body=columns[BODY],
        **{name: getattr(rest, name) for name in _OF_REJECTED},
    )


def mark_of(columns: Mapping[bytes, bytes]) -> Mark:
    """Who wrote the row."""
    return Mark(int(columns[ATTEMPT]), _moment_of(columns[STORED]))


def attempt_of(columns: Mapping[bytes, bytes]) -> int:
    """The attempt under which the row was written."""
    return int(columns[ATTEMPT])


def entry_of(columns: Mapping[bytes, bytes]) -> IndexEntry:
    """An entry of the index."""
    entry: IndexEntry = _decoded(_entries, columns[ENTRY])
    return entry


def segment_columns(segment: VideoSegment) -> Cells:
    """The one column that a message on a piece of film is written to."""
    return {DELETED_SEGMENT if segment.state == "deleted" else SEGMENT: encode(segment)}


def segment_of(columns: Mapping[bytes, bytes]) -> VideoSegment:
    """What holds of a piece of film."""
    segment: VideoSegment = _decoded(
        _segments, columns.get(DELETED_SEGMENT) or columns[SEGMENT]
    )
    return segment


def cell_of(columns: Mapping[bytes, bytes]) -> Cell:
    """A cell of the aggregates."""
    cell: Cell = _decoded(_cells, columns[CELL])
    return cell


def read_ledger(session: RowReader) -> tuple[Ledger, bytes | None]:
    """The ledger as it stands, and as it is written; a new one where there is none."""
    text = session.get(tables.LEDGER, HEAD_ROW).get(HEAD)
    return (Ledger() if text is None else _decoded(_ledgers, text)), text


def _moment(moment_ms: int) -> bytes:
    """`2026-08-24T09:25:34.123+00:00`."""
    return (_EPOCH + timedelta(milliseconds=moment_ms)).isoformat(timespec="milliseconds").encode()


def _moment_of(text: bytes) -> int:
    return (datetime.fromisoformat(text.decode()) - _EPOCH) // _MS


def _decoded(decoder: Any, data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"the store holds what this program does not know: {error}") from error
