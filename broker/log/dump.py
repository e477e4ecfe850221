"""The files of a partition made readable, line by line; Kafka's tool for it is DumpLogSegments.

In: a file of a segment under any of its names, or the directory of a partition, on which a broker
may be at work. Out: one dict per line, in the order of the file, each with its ``kind``: `batch`,
`record`, `control`, `entry` of an index or a snapshot, `damage`. Never: more in memory than one
batch and one chunk; an exception for damaged bytes (DiskError for a disk's fault only); a write.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from struct import Struct

from crc32c import crc32c

from broker.disk.port import Disk, File
from broker.log import producer_snapshots as snapshots
from broker.log import txnindex
from broker.log.audit import Damage, audit
from broker.log.batch_scanner import ScannedBatch
from broker.log.files import base_offset_of
from broker.log.index import OffsetIndex, TimeIndex
from bus.records.batch import BatchHeader, Buffer, RecordsError
from bus.records.codecs import Compression
from bus.records.control import ControlType, control_type, coordinator_epoch
from bus.records.read import read_records
from bus.records.record import Record

Line = dict[str, object]
Readable = Callable[[bytes | None, bytes | None], Line | None]
"""What a record of a coordinator's topic says; None where it cannot be told."""

PIECE_BYTES = 1 << 16
"""Of an index or a snapshot, read at once."""


def readable_files(disk: Disk, path: str) -> list[str]:
    """The file itself, or those of the directory's log, by offset and kind: not what was deleted
    or replaced, which still has its name with a suffix."""
    if base_offset_of(path.rpartition("/")[2]) is not None:
        return [path]
    names = [
        name for name in disk.listdir(path) if _kind_of(name) in _KINDS and name.count(".") == 1
    ]
    return [f"{path}/{name}" for name in sorted(names)]


def dump_file(
    disk: Disk, path: str, *, records: bool = False, readable: Readable | None = None
) -> Iterator[Line]:
    """The lines of one file. With ``records`` also the records of a segment, in the words of
    ``readable`` where that knows some. Raises DiskError, ValueError for a file of no known kind."""
    name = path.rpartition("/")[2]
    base, kind = base_offset_of(name), _kind_of(name)
    if base is None or kind not in _KINDS:
        raise ValueError(f"{path}: no segment, index or snapshot by its name")
    file = disk.open(path)
    try:
        if kind == _SEGMENT:
            yield from _segment(file, base, records, readable)
        else:
            yield from _OTHERS[kind](file, base)
    finally:
        file.close()


def _kind_of(name: str) -> str:
    """`log` of `00000000000000000000.log`, also with `.deleted` or the like behind it."""
    return "" if base_offset_of(name) is None else name.split(".")[1]


# --- segments -------------------------------------------------------------------------------------


def _segment(
    file: File, base: int, records: bool, readable: Readable | None
) -> Iterator[Line]:
    end = base
    for found in audit(file, file.size(), base):
        if isinstance(found, Damage):
            yield _damage(found.position, found.fault, end_position=found.end_position,
                          from_offset=found.from_offset, to_offset=found.to_offset)  # fmt: skip
            continue
        yield _batch(found, found.header.base_offset - end)
        end = found.header.end_offset
        if records:
            yield from _records(found, readable)


def _batch(found: ScannedBatch, missing: int) -> Line:
    header = found.header
    line: Line = {
        "kind": "batch",
        "position": found.position,
        "size": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "missing_before": max(missing, 0),
        "records": header.records_count,
        "leader_epoch": header.partition_leader_epoch,
        "codec": _codec(header),
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
    }
    if header.delete_horizon_ms is not None:
        line["delete_horizon"] = header.delete_horizon_ms
    if header.producer_id >= 0:
        line |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
        }
    flags = {"transactional": header.is_transactional, "control": header.is_control}
    return line | {name: True for name, is_set in flags.items() if is_set}


def _codec(header: BatchHeader) -> str:
    known = header.compression in set(Compression)
    return Compression(header.compression).name.lower() if known else str(header.compression)


def _records(found: ScannedBatch, readable: Readable | None) -> Iterator[Line]:
    try:
        for record in read_records(bytes(found.data)):
            line: Line = {"kind": "record", "offset": record.offset}
            line["timestamp"] = record.timestamp_ms
            yield line | (
                _control(record) if found.header.is_control else _contents(record, readable)
            )
    except RecordsError as error:
        yield _damage(found.position, f"the checksum is right, the records are not ({error})")


def _control(record: Record) -> Line:
    try:
        kind = control_type(record.key)
        line: Line = {"kind": "control", "type": kind.name}
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            line["coordinator_epoch"] = coordinator_epoch(record.value)
    except RecordsError as error:
        return {"kind": "control", "fault": str(error)}
    return line


def _contents(record: Record, readable: Readable | None) -> Line:
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    found = readable(key, value) if readable is not None else None
    if found is not None:
        return found
    line = _content("key", key) | _content("value", value)
    if record.headers:
        line["headers"] = [_content(name, content) for name, content in record.headers]
    return line


def _content(name: str, content: Buffer | None) -> Line:
    """As text, where it is text."""
    if content is None:
        return {name: None}
    try:
        return {name: bytes(content).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


# --- indexes and snapshots ------------------------------------------------------------------------


def _offset_index(file: File, base: int) -> Iterator[Line]:
    for at, (offset, position) in _entries(file, OffsetIndex.entry, 0):
        yield _entry(at, {"offset": base + offset, "position": position})
    yield from _rest(file, OffsetIndex.entry, 0)


def _time_index(file: File, base: int) -> Iterator[Line]:
    for at, (timestamp, offset) in _entries(file, TimeIndex.entry, 0):
        yield _entry(at, {"timestamp": timestamp, "offset": base + offset})
    yield from _rest(file, TimeIndex.entry, 0)


def _aborted_index(file: File, _base: int) -> Iterator[Line]:
    for at, (version, producer_id, first, last, stable) in _entries(file, txnindex.ENTRY, 0):
        if version != txnindex.VERSION:
            yield _damage(at, f"an entry of version {version}")
            continue
        yield _entry(at, {"producer_id": producer_id, "first_offset": first, "last_offset": last,
                          "last_stable_offset": stable})  # fmt: skip
    yield from _rest(file, txnindex.ENTRY, 0)


def _snapshot(file: File, _base: int) -> Iterator[Line]:
    begin = snapshots.HEAD.size + snapshots.COUNT.size
    head = file.read(0, begin)
    if len(head) < begin:
        yield _damage(0, f"{len(head)} bytes are no producer snapshot")
        return
    version, crc = snapshots.HEAD.unpack_from(head)
    (count,) = snapshots.COUNT.unpack_from(head, snapshots.HEAD.size)
    if version != snapshots.VERSION:
        yield _damage(0, f"a producer snapshot of version {version}")
        return
    if _crc_of(file) != crc:
        yield _damage(0, "the CRC does not match")
    if count * snapshots.ENTRY.size != file.size() - begin:
        yield _damage(0, f"{count} producers in {file.size() - begin} bytes")
    for at, fields in _entries(file, snapshots.ENTRY, begin):
        yield _entry(at, dict(zip(_PRODUCER_FIELDS, fields, strict=True)))
    yield from _rest(file, snapshots.ENTRY, begin)


_PRODUCER_FIELDS = (
    "producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta",
    "last_timestamp", "coordinator_epoch", "transaction_first_offset",
)  # fmt: skip


def _crc_of(file: File) -> int:
    crc, at = 0, snapshots.HEAD.size
    while data := file.read(at, PIECE_BYTES):
        crc, at = crc32c(data, crc), at + len(data)
    return int(crc)


def _entries(file: File, entry: Struct, begin: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Whole entries from a position on, each with its own."""
    step = PIECE_BYTES // entry.size * entry.size
    at = begin
    while data := file.read(at, step):
        whole = len(data) // entry.size * entry.size
        for number, fields in enumerate(entry.iter_unpack(data[:whole])):
            yield at + number * entry.size, fields
        if whole < len(data) or len(data) < step:
            return
        at += whole


def _rest(file: File, entry: Struct, begin: int) -> Iterator[Line]:
    """Bytes behind the last whole entry."""
    size = file.size()
    left = (size - begin) % entry.size
    if left:
        yield _damage(size - left, f"{left} bytes behind the last whole entry")


def _entry(at: int, fields: dict[str, int]) -> Line:
    """``at``: its own place in the file."""
    return {"kind": "entry", "at": at, **fields}


def _damage(position: int, fault: str, **more: int) -> Line:
    return {"kind": "damage", "position": position, "fault": fault, **more}


_OTHERS: dict[str, Callable[[File, int], Iterator[Line]]] = {
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _aborted_index,
    "snapshot": _snapshot,
}
_SEGMENT = "log"
_KINDS = frozenset({_SEGMENT, *_OTHERS})
