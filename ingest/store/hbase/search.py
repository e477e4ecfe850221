"""A `Query` as ranges of the index and as a condition on rows. Pure.

In: `Query`, a cursor. Out: where to read, newest first, and what a row must be. Never: HBase.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from bus.domain.kinds import KINDS
from bus.domain.plates import plate_key, plate_pattern
from bus.domain.times import MINUTE_MS
from ingest.store.hbase.columns import IndexEntry
from ingest.store.hbase.keys import Facet, newest_first, prefixes
from ingest.store.hbase.tables import CLASSES
from ingest.store.port import Query, RecordRow

BEHIND_ALL = b"\xff" * 9
ANY = "*"
WITH_PLATE = tuple(name for name in CLASSES if KINDS[name].has_plate)
EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Range:
    """Index keys from `start` (inclusive) to `stop` (exclusive), all beginning with `prefix`."""

    prefix: bytes
    start: bytes
    stop: bytes


@dataclass(frozen=True, slots=True)
class AccessPath:
    """The part of the index to walk."""

    facet: Facet
    values: tuple[str, ...] = ("",)


def tables_of(query: Query) -> tuple[str, ...]:
    """The tables in which records can match."""
    classes = CLASSES
    if query.kind:
        classes = tuple(name for name in CLASSES if query.kind in KINDS[name].stored_as)
    if query.plate and not _has_no_key(query.plate):
        classes = tuple(name for name in classes if name in WITH_PLATE)
    return classes


def choose_access_path(query: Query, checkpoints: tuple[str, ...] | None = None) -> AccessPath:
    """The facet that restricts most; `checkpoints` are those where the query's camera was seen."""
    pattern = plate_pattern(query.plate) if query.plate else ""
    if pattern and ANY not in pattern and plate_key(query.plate):
        path = AccessPath(Facet.PLATE, (plate_key(query.plate),))
    elif query.checkpoint_id:
        path = AccessPath(Facet.CHECKPOINT, (query.checkpoint_id,))
    elif query.camera_ip and checkpoints is not None:
        path = AccessPath(Facet.CHECKPOINT, checkpoints)
    else:
        path = AccessPath(Facet.TIME)
    return path


def is_covered_by_index(query: Query, path: AccessPath) -> bool:
    """Whether the index alone says how many match: no record need be read."""
    by_number = bool(query.plate) and _has_no_key(query.plate)
    elsewhere = bool(query.checkpoint_id) and path.facet is not Facet.CHECKPOINT
    return not (query.text or by_number or elsewhere)


def may_match(query: Query, entry: IndexEntry) -> bool:
    """What the index entry tells of a row: False if the row cannot be what was asked for."""
    return (
        query.kind in ("", entry.kind)
        and query.district_id in ("", entry.district_id)
        and query.camera_ip in ("", entry.camera_ip)
        and (not query.plate or _has_no_key(query.plate) or _fits_key(query.plate, entry.plate_key))
    )


def ranges(path: AccessPath, from_ms: int = 0, until_ms: int = 0, cursor: str = "") -> list[Range]:
    """Where to read; each by time, newest first, then by identity."""
    found = []
    for value in path.values:
        for prefix in prefixes(path.facet, value):
            start = prefix if not until_ms else prefix + newest_first(until_ms - 1)
            stop = prefix + (newest_first(from_ms - 1) if from_ms else BEHIND_ALL)
            if cursor:
                moment_ms, _, identity = cursor.partition(".")
                behind = newest_first(int(moment_ms)) + identity.encode() + b"\x00"
                start = max(start, prefix + behind)
            found.append(Range(prefix, start, stop))
    return found


def matches(query: Query, row: RecordRow) -> bool:
    """Whether a row is what was asked for."""
    for name in ("record_id", "kind", "checkpoint_id", "district_id", "camera_ip"):
        wanted = getattr(query, name)
        if wanted and getattr(row, name) != wanted:
            return False
    if query.captured_from_ms and row.captured_at_ms < query.captured_from_ms:
        return False
    if query.captured_until_ms and row.captured_at_ms >= query.captured_until_ms:
        return False
    if query.plate and not _plate_matches(query.plate, row):
        return False
    return not query.text or query.text.encode() in row.body


def _plate_matches(plate: str, row: RecordRow) -> bool:
    if _has_no_key(plate):
        return row.plate_number == plate
    return _fits_key(plate, row.plate_key)


def _has_no_key(plate: str) -> bool:
    """Whether it is 无车牌 or the like: these are found as the device wrote them."""
    return ANY not in plate_pattern(plate) and not plate_key(plate)


def _fits_key(plate: str, key: str) -> bool:
    return bool(key) and fits(plate_pattern(plate), key)


def fits(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern in which `*` stands for any run of characters."""
    first, *rest = pattern.split(ANY)
    if not rest:
        return text == pattern
    last = rest.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return text.endswith(last)


def whole_minutes(query: Query) -> tuple[int, int] | None:
    """The whole minutes of capture, from the first to before the last (ms), whose counts answer how
    many records match; None where a count per kind and minute does not tell it."""
    if any((query.plate, query.checkpoint_id, query.district_id, query.camera_ip, query.text,
            query.record_id)):  # fmt: skip
        return None
    first = -(-query.captured_from_ms // MINUTE_MS) * MINUTE_MS if query.captured_from_ms else -EVER
    last = query.captured_until_ms // MINUTE_MS * MINUTE_MS if query.captured_until_ms else EVER
    # Zero is a question without that bound: an edge could not be asked for.
    return (first, last) if first < last and first and last else None


def edges(query: Query, span: tuple[int, int]) -> list[Query]:
    """What is left of a question before and behind its whole minutes."""
    first, last = span
    found = []
    if query.captured_from_ms and query.captured_from_ms < first:
        found.append(replace(query, captured_until_ms=first))
    if query.captured_until_ms and last < query.captured_until_ms:
        found.append(replace(query, captured_from_ms=last))
    return found
