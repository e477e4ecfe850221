"""Row keys: where a record, an index entry or a cell lies. Pure.

In: rows and questions. Out: bytes that sort as they shall be read. Never: HBase.

A key begins with a salt where neighbours in time would else all fall on one region. A string ends
with a zero byte (one inside it is followed by 0xff), so that none is the beginning of another;
numbers are eight bytes, big endian; moments that are read newest first are negated.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any
from zlib import crc32

from ingest.store.port import COMMON_STORED, RecordRow, RejectedRow

SALTS = 16
END, INSIDE = b"\x00", b"\x00\xff"
_ZERO = 1 << 63


class Facet(Enum):
    """By what a record can be found, newest first."""

    PLATE = b"p"
    CHECKPOINT = b"c"
    KIND = b"k"
    TIME = b"t"
    REJECTED = b"r"
    CAMERA = b"m"
    """At which checkpoints a camera was seen: its records are found through those."""


def salt(text: str) -> bytes:
    """One byte that is the same in every process and for ever."""
    return bytes([crc32(text.encode()) % SALTS])


def record_key(record_id: str) -> bytes:
    """Where the record of that identity lies."""
    return salt(record_id) + b"r" + record_id.encode()


def rejected_key(record_id: str) -> bytes:
    """Where the rejected record of that identity lies."""
    return salt(record_id) + b"x" + record_id.encode()


def newest_first(moment_ms: int) -> bytes:
    """Eight bytes that are smaller the later the moment is."""
    return number(-moment_ms)


def text(value: str) -> bytes:
    """A string with its end."""
    return value.encode().replace(END, INSIDE) + END


def number(value: int) -> bytes:
    """Eight bytes that sort as the number does, negative ones too. Up to 2^62 either way, so that
    none begins with the 0xff that would belong to a text before it."""
    return (value + _ZERO).to_bytes(8, "big")


def value_of(eight_bytes: bytes) -> int:
    """The number that they are."""
    return int.from_bytes(eight_bytes, "big") - _ZERO


def moment_of(index_key: bytes, prefix: bytes) -> int:
    """The moment in an index key behind its prefix."""
    return -value_of(index_key[len(prefix) : len(prefix) + 8])


def identity_of(index_key: bytes, prefix: bytes) -> str:
    """The identity in an index key behind its prefix."""
    return index_key[len(prefix) + 8 :].decode()


def prefixes(facet: Facet, value: str = "") -> list[bytes]:
    """Where the entries of a facet begin; all of them if several, each sorted by time."""
    if facet in (Facet.TIME, Facet.REJECTED):
        return [bytes([one]) + facet.value for one in range(SALTS)]
    return [salt(value) + facet.value + text(value)]


def index_keys(row: RecordRow) -> Iterator[bytes]:
    """Every entry under which a record is found."""
    behind = newest_first(row.captured_at_ms) + row.record_id.encode()
    yield salt(row.record_id) + Facet.TIME.value + behind
    values = {Facet.CHECKPOINT: row.checkpoint_id}
    if row.plate_key:
        values[Facet.PLATE] = row.plate_key
    if row.kind != COMMON_STORED:
        values[Facet.KIND] = row.kind
    for facet, value in values.items():
        [prefix] = prefixes(facet, value)
        yield prefix + behind


def camera_prefix(camera_ip: str) -> bytes:
    """Where the checkpoints of a camera lie."""
    [prefix] = prefixes(Facet.CAMERA, camera_ip)
    return prefix


def camera_key(row: RecordRow) -> bytes:
    """That the record's camera was seen at its checkpoint."""
    return camera_prefix(row.camera_ip) + row.checkpoint_id.encode()


def checkpoint_of(key: bytes, prefix: bytes) -> str:
    """The checkpoint that a `camera_key` tells."""
    return key[len(prefix) :].decode()


def rejected_index_key(row: RejectedRow) -> bytes:
    """The entry of a rejected record: by the time at which it was kept."""
    behind = newest_first(row.stored_at_ms) + row.record_id.encode()
    return salt(row.record_id) + Facet.REJECTED.value + behind


def cell_key(table: bytes, *parts: str | int) -> bytes:
    """A cell's key: which kind of cell, then what it is about, in the order of reading."""
    return table + b"".join(
        number(part) if isinstance(part, int) else text(part) for part in parts
    )


def parts_of(key: bytes, shape: str) -> list[Any]:
    """What `cell_key` was made of; `shape` has an `s` or an `n` for each part."""
    parts: list[Any] = []
    at = 1
    for kind in shape:
        if kind == "n":
            parts.append(value_of(key[at : at + 8]))
            at += 8
        else:
            end = _end_of_text(key, at)
            parts.append(key[at:end].replace(INSIDE, END).decode())
            at = end + 1
    return parts


def _end_of_text(key: bytes, at: int) -> int:
    end = key.index(END, at)
    while key[end : end + 2] == INSIDE:
        end = key.index(END, end + 2)
    return end
