"""Row keys: where a record, an index entry or a cell lies. Pure.

In: rows and questions. Out: bytes that sort as they shall be read. Never: HBase.

A key begins with a salt where neighbours in time would else all fall on one region. A string ends
with a zero byte, so that none is the beginning of another: one inside it is 0xc0 0x80, as in Java's
modified UTF-8, which has no zero byte. Earlier versions of this program wrote it as 0x00 0xff,
where one string could be the beginning of another; such keys are still found and read. Numbers are
eight bytes, big endian; moments that are read newest first are negated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any
from zlib import crc32

from bus.contracts.video_segments import VideoSegment
from ingest.store.port import RecordRow

SALTS = 16
ALL_SALTS = tuple(bytes([one]) for one in range(SALTS))
END, INSIDE, FORMER_INSIDE = b"\x00", b"\xc0\x80", b"\x00\xff"
BEHIND_ALL = b"\xff"
"""Behind every key of a prefix: none goes on with this byte but, where the prefix ends with a
string, one of a longer string as earlier versions wrote it."""
_ZERO = 1 << 63


class Facet(Enum):
    """By what a record can be found, newest first, in the table of its class."""

    PLATE = b"p"
    CHECKPOINT = b"c"
    PARTLY_READ = b"u"
    """A reading of a plate with few characters unread."""
    HARDLY_READ = b"v"
    """Plates with more of them, all together, newest first."""
    TIME = b"t"
    CAMERA = b"m"
    """At which checkpoints a camera was seen: its records are found through those."""


_BY_TIME = (Facet.TIME, Facet.HARDLY_READ)


def salt(text: str) -> bytes:
    """One byte that is the same in every process and for ever."""
    return bytes([crc32(text.encode()) % SALTS])


def row_key(record_id: str) -> bytes:
    """Where the record of that identity lies, valid or rejected."""
    return salt(record_id) + b"r" + record_id.encode()


def record_id_of(key: bytes) -> str:
    """The identity that a `row_key` tells."""
    return key[2:].decode()


def newest_first(moment_ms: int) -> bytes:
    """Eight bytes that are smaller the later the moment is."""
    return number(-moment_ms)


def text(value: str) -> bytes:
    """A string with its end; no other string's begins with it."""
    return value.encode().replace(END, INSIDE) + END


def former_text(value: str) -> bytes:
    """The same as earlier versions wrote it."""
    return value.encode().replace(END, FORMER_INSIDE) + END


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
    if facet in _BY_TIME:
        return [one + facet.value for one in ALL_SALTS]
    written = dict.fromkeys((text(value), former_text(value)))
    return [salt(value) + facet.value + one for one in written]


def index_keys(row: RecordRow, places: Iterable[tuple[Facet, str]]) -> Iterator[bytes]:
    """Every entry under which a record is found; `places`: those of its plate."""
    yield time_key(row.captured_at_ms, row.record_id)
    behind = newest_first(row.captured_at_ms) + row.record_id.encode()
    for facet, value in ((Facet.CHECKPOINT, row.checkpoint_id), *places):
        if facet in _BY_TIME:
            yield time_key(row.captured_at_ms, row.record_id, facet)
        else:
            yield prefixes(facet, value)[0] + behind


def time_key(moment_ms: int, record_id: str, facet: Facet = Facet.TIME) -> bytes:
    """The entry under which a record is found by time: of its capture, or, if it was rejected, at
    which it was kept."""
    return salt(record_id) + facet.value + newest_first(moment_ms) + record_id.encode()


def segment_prefix(camera_ip: str) -> bytes:
    """Where the pieces of a camera's film begin, the newest first."""
    return salt(camera_ip) + b"s" + text(camera_ip)


def segment_key(segment: VideoSegment) -> bytes:
    """Where a piece of film stands."""
    behind = newest_first(segment.start_ms) + segment.segment_id.encode()
    return segment_prefix(segment.camera_ip) + behind


def camera_key(row: RecordRow) -> bytes:
    """That the record's camera was seen at its checkpoint."""
    return prefixes(Facet.CAMERA, row.camera_ip)[0] + row.checkpoint_id.encode()


def checkpoint_of(key: bytes, prefix: bytes) -> str:
    """The checkpoint that a `camera_key` tells."""
    return key[len(prefix) :].decode()


def cell_key(kind: bytes, spread: str, *parts: str | int) -> bytes:
    """A cell's key: a salt, which kind of cell, then what it is about, in the order of reading.
    `spread`: cells that differ in it lie apart, however close their minutes are."""
    about = b"".join(number(part) if isinstance(part, int) else text(part) for part in parts)
    return salt(spread) + kind + about


def cell_kind(key: bytes) -> bytes:
    """The kind of a cell."""
    return key[1:2]


def parts_of(key: bytes, shape: str) -> list[Any]:
    """What `cell_key` was made of; `shape` has an `s` or an `n` for each part."""
    parts: list[Any] = []
    at = 2
    for kind in shape:
        if kind == "n":
            parts.append(value_of(key[at : at + 8]))
            at += 8
        else:
            end = _end_of_text(key, at)
            written = key[at:end].replace(FORMER_INSIDE, END).replace(INSIDE, END)
            parts.append(written.decode())
            at = end + 1
    return parts


def _end_of_text(key: bytes, at: int) -> int:
    end = key.index(END, at)
    while key[end : end + 2] == FORMER_INSIDE:
        end = key.index(END, end + 2)
    return end
