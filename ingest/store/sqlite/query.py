"""A `Query` as SQL: which index leads, which conditions follow. Pure.

In: `Query`, `PageRequest`. Out: a `Statement`. Never: a value inside the SQL text, an
unbounded page.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bus.domain.plate_search import asks_as_written
from bus.domain.searched_area import SearchedArea
from bus.domain.tolerant_search import TolerantPlate, tolerant_plate
from ingest.store.port import COMMON_STORED, PageRequest, Query, RecordRow, cursor_numbers
from ingest.store.sqlite.facets import (
    FACET_CHECKPOINT,
    FACET_KIND,
    FACET_PLATE,
    HOUR_MS,
)
from ingest.store.sqlite.plate_facets import (
    FITS_TOLERANT_ENTRY,
    fits_entry,
    fits_form,
    places,
    tolerant_places,
)

MAX_PAGE_ROWS = 10_000  # a page is held in memory; more is asked for page by page
# By one search for a part of a plate: 0.3 s to 0.8 s on a store of 1.5 million records, 2 s for a
# letter that stands in every plate (they are grouped).
MAX_PLATES_SCANNED = 1_000_000
MOST_PLACES_OF_AREA = 200  # each is looked up in each hour, until the page is full
_COLUMNS = ",".join(f"r.{name}" for name in RecordRow.__struct_fields__)


_VALUES = "(SELECT value FROM json_each(?))"
_SEEN_IN_AREA = (
    "(SELECT value FROM json_each(?) UNION"
    f" SELECT checkpoint_id FROM cameras WHERE camera_ip IN {_VALUES})"
)


@dataclass(slots=True)
class Statement:
    """SQL and the values of its marks; `asked`: what its `tolerates` goes by, where it has one."""

    sql: str
    values: list[Any] = field(default_factory=list)
    asked: TolerantPlate | None = None

    def add(self, sql: str, *values: Any) -> None:
        """One more condition."""
        self.sql += f" AND {sql}"
        self.values.extend(values)


def records_statement(query: Query, page: PageRequest | None) -> Statement:
    """The rows of a page with their row number first (one more than asked, to see whether there are
    more);
    without a page, the number of rows."""
    lead = _lead(query)
    what = f"SELECT r.id,{_COLUMNS}" if page else "SELECT count(*)"
    statement = Statement(f"{what} FROM {lead.sql}", lead.values, _asked(query))
    _restrict(statement, query)
    if page is not None:
        _page(statement, page)
    return statement


def _asked(query: Query) -> TolerantPlate | None:
    """Raises `NotOnePlate`."""
    if not query.plate:
        return None
    return tolerant_plate(query.plate, query.tolerance, query.confusion)


# Index entries alone, newest hour first. The inner LIMIT is what bounds the cost.
_NEWEST_PLATES = (
    "SELECT f.value, f.captured_at_ms, h.hour FROM hours h CROSS JOIN facets f"
    f" ON f.hour = h.hour AND f.facet = {FACET_PLATE} ORDER BY h.hour DESC LIMIT ?"
)


def plates_statement(part: str, most: int, limit: int) -> Statement:
    """Plates that hold a part, among the `most` newest entries of the index."""
    sql = (
        f"SELECT value, max(captured_at_ms) AS last FROM ({_NEWEST_PLATES})"
        " WHERE instr(value, ?) > 0 GROUP BY value ORDER BY last DESC, value LIMIT ?"
    )
    return Statement(sql, [most, part, limit])


def scanned_since_statement(most: int) -> Statement:
    """The hour in which looking at the `most` newest entries ended; no row if it saw all of them.
    The entries of that hour lie by plate: not all of it was seen."""
    return Statement(f"SELECT hour FROM ({_NEWEST_PLATES} OFFSET ?)", [1, most])


def bounded(limit: int) -> int:
    """The number of rows a page may really have."""
    return min(max(limit, 1), MAX_PAGE_ROWS)


def _lead(query: Query) -> Statement:
    """The index to walk: identity, else the facet that restricts most, else the capture time."""
    if query.record_id:
        return _records("r.record_id = ?", query.record_id)
    if query.plate:
        return _plates(query)
    if query.checkpoint_id:
        return _facet(FACET_CHECKPOINT, "f.value = ?", query.checkpoint_id)
    if query.area is not None and not query.camera_ip and _is_narrow(query.area):
        return _facet(FACET_CHECKPOINT, f"f.value IN {_SEEN_IN_AREA}",
                      _listed(query.area.checkpoints), _listed(query.area.own_devices))  # fmt: skip
    if query.kind and query.kind != COMMON_STORED and not query.camera_ip:
        return _facet(FACET_KIND, "f.value = ?", query.kind)
    if query.camera_ip:
        seen_at = "(SELECT checkpoint_id FROM cameras WHERE camera_ip = ?)"
        return _facet(FACET_CHECKPOINT, f"f.value IN {seen_at}", query.camera_ip)
    return _records("1")


def _is_narrow(area: SearchedArea) -> bool:
    """Of a wider one a page is found sooner by time."""
    return area.place_count <= MOST_PLACES_OF_AREA


def _records(condition: str, *values: object) -> Statement:
    return Statement(f"records r WHERE {condition}", list(values))


def _facet(facet: int, condition: str, *values: object) -> Statement:
    # CROSS JOIN: SQLite then keeps this order of tables and does not guess by sizes.
    return Statement(
        f"hours h CROSS JOIN facets f ON f.hour = h.hour AND f.facet = {facet}"
        f" CROSS JOIN records r ON r.id = f.id WHERE {condition}",
        list(values),
    )


def _plates(query: Query) -> Statement:
    more: list[Any] = []
    if (asked := _asked(query)) is not None:
        where, values = tolerant_places(asked)
        fits = FITS_TOLERANT_ENTRY
    elif asks_as_written(query.plate):
        return _records("r.plate_number = ?", query.plate)
    else:
        where, values = places(query.plate)
        fits, more = fits_entry(query.plate)
    # CROSS JOIN: see `_facet`. A range per facet is what SQLite can search the index by.
    return Statement(
        f"hours h CROSS JOIN {where} p CROSS JOIN facets f ON f.hour = h.hour AND f.facet = p.facet"
        " AND f.value >= p.first AND f.value <= p.last CROSS JOIN records r ON r.id = f.id"
        f" WHERE {fits}",
        [*values, *more],
    )


def _restrict(statement: Statement, query: Query) -> None:
    """Every condition; the leading one's is repeated where it does no harm."""
    time = _time_column(statement)
    if query.captured_from_ms:
        statement.add(f"{time} >= ?", query.captured_from_ms)
        _from_hour(statement, ">=", query.captured_from_ms)
    if query.captured_until_ms:
        statement.add(f"{time} < ?", query.captured_until_ms)
        _from_hour(statement, "<=", query.captured_until_ms)
    for name in ("kind", "checkpoint_id", "district_id", "camera_ip"):
        value = getattr(query, name)
        if value:
            statement.add(f"r.{name} = ?", value)
    if query.area is not None:
        _restrict_area(statement, query.area)
    if query.record_id and query.plate:
        _restrict_plate(statement, query)
    if query.text:
        statement.add("instr(r.body, ?) > 0", query.text.encode())


def _restrict_area(statement: Statement, area: SearchedArea) -> None:
    """As `SearchedArea.has` says."""
    statement.add(
        f"(r.camera_ip IN {_VALUES} OR (r.camera_ip NOT IN {_VALUES} AND (r.checkpoint_id IN"
        f" {_VALUES} OR (r.camera_ip IN {_VALUES} AND r.checkpoint_id NOT IN {_VALUES}))))",
        *map(_listed, (area.devices, area.elsewhere, area.checkpoints, area.hanging, area.known)),
    )


def _listed(ids: frozenset[str]) -> str:
    return json.dumps(sorted(ids))


def _restrict_plate(statement: Statement, query: Query) -> None:
    """Of a record that another index has found."""
    if statement.asked is not None:
        statement.add("tolerates(plate_form(r.plate_number))")
    elif asks_as_written(query.plate):
        statement.add("r.plate_number = ?", query.plate)
    else:
        condition, values = fits_form("plate_form(r.plate_number)", query.plate)
        statement.add(condition, *values)


def _page(statement: Statement, page: PageRequest) -> None:
    time = _time_column(statement)
    number = "f.id" if time.startswith("f.") else "r.id"
    if page.cursor:
        captured_at_ms, row_number = cursor_numbers(page.cursor, 2)
        statement.add(f"({time}, {number}) < (?, ?)", captured_at_ms, row_number)
        _from_hour(statement, "<=", captured_at_ms)
    hours = "h.hour DESC, " if time.startswith("f.") else ""
    order = f"{hours}{time} DESC, {number} DESC"
    statement.sql += f" ORDER BY {order} LIMIT {bounded(page.limit) + 1}"


def _from_hour(statement: Statement, compare: str, moment_ms: int) -> None:
    """Spare the walk through hours that cannot match; SQL divides towards zero, so do we."""
    if _time_column(statement).startswith("f."):
        statement.add(f"h.hour {compare} ? / {HOUR_MS}", moment_ms)


def _time_column(statement: Statement) -> str:
    return "f.captured_at_ms" if "facets f" in statement.sql else "r.captured_at_ms"
