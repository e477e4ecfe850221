"""A `Query` as ranges of the index and as a condition on rows. Pure.

In: `Query`, a cursor. Out: where to read, newest first, and what a row must be. Never: HBase.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from bus.domain.former_plates import former_key
from bus.domain.kinds import KINDS
from bus.domain.plate_search import asks_as_written, fits
from bus.domain.plates import ANY_RUN, folded, plate_form
from bus.domain.times import MINUTE_MS
from bus.domain.tolerant_search import accepts, tolerant_plate
from ingest.store.hbase.columns import IndexEntry
from ingest.store.hbase.keys import BEHIND_ALL, Facet, newest_first, prefixes
from ingest.store.hbase.plate_places import Place, places_asked
from ingest.store.hbase.tables import CLASSES
from ingest.store.port import Query, RecordRow, cursor_numbers

WITH_PLATE = tuple(name for name in CLASSES if KINDS[name].has_plate)
EVER = 1 << 62
MOST_PLACES_OF_AREA = 50
"""Each is a place of the index that is read for a page; of a wider area a page is found by time."""


@dataclass(frozen=True, slots=True)
class Range:
    """Index keys from `start` (inclusive) to `stop` (exclusive), all beginning with `prefix`."""

    prefix: bytes
    start: bytes
    stop: bytes


@dataclass(frozen=True, slots=True)
class AccessPath:
    """The parts of the index to walk."""

    places: tuple[Place, ...] = ((Facet.TIME, ""),)

    def leads_by(self, facet: Facet) -> bool:
        """Whether all entries are of this facet."""
        return all(own is facet for own, _ in self.places)


def tables_of(query: Query) -> tuple[str, ...]:
    """The tables in which records can match."""
    classes = CLASSES
    if query.kind:
        classes = tuple(name for name in CLASSES if query.kind in KINDS[name].stored_as)
    if query.plate and (_is_tolerant(query) or not asks_as_written(query.plate)):
        classes = tuple(name for name in classes if name in WITH_PLATE)
    return classes


def choose_access_path(query: Query, checkpoints: tuple[str, ...] | None = None) -> AccessPath:
    """The facet that restricts most; `checkpoints` are those where the query's camera was seen, or
    the devices of its area, and the area's own."""
    is_one = bool(query.plate) and not _is_tolerant(query)
    by_plate = places_asked(query.plate) if is_one else ()
    if by_plate:
        return AccessPath(by_plate)
    if query.checkpoint_id:
        return AccessPath(((Facet.CHECKPOINT, query.checkpoint_id),))
    if checkpoints is not None and (query.camera_ip or query.area is not None):
        return AccessPath(tuple((Facet.CHECKPOINT, one) for one in checkpoints))
    return AccessPath()


def is_covered_by_index(query: Query, path: AccessPath) -> bool:
    """Whether the index alone says how many match: no record need be read."""
    elsewhere = bool(query.checkpoint_id) and not path.leads_by(Facet.CHECKPOINT)
    return not (query.text or query.area or elsewhere or (query.plate and _may_have_no_form(query)))


def may_match(query: Query, entry: IndexEntry) -> bool:
    """What the index entry tells of a row: False if the row cannot be what was asked for."""
    return (
        query.kind in ("", entry.kind)
        and query.district_id in ("", entry.district_id)
        and query.camera_ip in ("", entry.camera_ip)
        and (not query.plate or _may_be_plate(query, entry))
    )


def _may_be_plate(query: Query, entry: IndexEntry) -> bool:
    form = entry.plate_form or plate_form(entry.plate_key)  # the key may be of an earlier version
    return _fits(query, form) if form else _may_have_no_form(query)


def _may_have_no_form(query: Query) -> bool:
    """Whether rows whose entries tell nothing of a plate may be what was asked for: those found as
    they were written, and those that an earlier version took for masked."""
    plate = query.plate
    if _is_tolerant(query):
        return False
    return asks_as_written(plate) or not (ANY_RUN in folded(plate) or former_key(plate))


def _is_tolerant(query: Query) -> bool:
    return tolerant_plate(query.plate, query.tolerance, query.confusion) is not None


def _fits(query: Query, form: str) -> bool:
    asked = tolerant_plate(query.plate, query.tolerance, query.confusion)
    return fits(query.plate, form) if asked is None else accepts(asked, form)


def ranges(path: AccessPath, from_ms: int = 0, until_ms: int = 0, cursor: str = "") -> list[Range]:
    """Where to read; each by time, newest first, then by identity."""
    found = []
    for facet, value in path.places:
        for prefix in prefixes(facet, value):
            start = prefix if not until_ms else prefix + newest_first(until_ms - 1)
            stop = prefix + (newest_first(from_ms - 1) if from_ms else BEHIND_ALL)
            if cursor:
                moment_ms, _, identity = cursor.partition(".")
                (captured_at_ms,) = cursor_numbers(moment_ms, 1)
                behind = newest_first(captured_at_ms) + identity.encode() + b"\x00"
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
    if query.plate and not _plate_matches(query, row):
        return False
    if query.area is not None and not query.area.has(row.checkpoint_id, row.camera_ip):
        return False
    return not query.text or query.text.encode() in row.body


def _plate_matches(query: Query, row: RecordRow) -> bool:
    if not _is_tolerant(query) and asks_as_written(query.plate):
        return row.plate_number == query.plate
    return _fits(query, plate_form(row.plate_number))


def whole_minutes(query: Query) -> tuple[int, int] | None:
    """The whole minutes of capture, from the first to before the last (ms), whose counts answer how
    many records match; None where a count per kind and minute does not tell it."""
    if any((query.plate, query.checkpoint_id, query.district_id, query.camera_ip, query.text,
            query.record_id, query.area)):  # fmt: skip
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
