"""A list in force as a reader of the bus makes it, with a real table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from alarm.lists.table import PlateTable, build_table
from alarm.rules.plate_lists import PlateList
from bus.contracts.plate_lists import ListLine, ListRecord, Tolerance

VERSION = 1_772_424_000_000


def made_list(
    directory: Path,
    list_id: str,
    plates: Iterable[str],
    *,
    tolerance: Tolerance = "exact",
    added: Mapping[str, ListLine] | None = None,
    removed: Iterable[str] = (),
    version: int = VERSION,
    alarms: bool = True,
    renewal_days: int = 0,
) -> PlateList:
    """Lines are numbered from 2, as in a file with a heading."""
    path = directory / f"{list_id}-{version}.table"
    lines = [ListLine(at, plate, f"note {at}", "2026-02-01") for at, plate in enumerate(plates, 2)]
    build_table(lines, path, near=tolerance == "distance 1")
    record = ListRecord(
        list_id=list_id, op="put", version=version, name=f"List {list_id}", tolerance=tolerance,
        severity="critical", alarms=alarms, date="2026-03-01", renewal_days=renewal_days,
        renewed_at_ms=VERSION,
    )  # fmt: skip
    return PlateList(record, PlateTable.open(path), added or {}, frozenset(removed))
