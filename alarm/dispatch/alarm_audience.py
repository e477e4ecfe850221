"""Who sees an alarm, whom it concerns, which case it is of: parts of what the operations store
writes and its reader asks. SQLite.

In: units, who looks. Out: a column's text, conditions. Never: an opinion of its own on who may see
what (`bus.domain.visibility`), which these conditions say in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.visibility import EVERY_UNIT, Viewer
from ingest.store.sqlite.plate_facets import Condition

_KIND_OF_BODY = "json_extract(CAST(body AS TEXT), '$.kind') = ?"


def units_text(visible_to: Sequence[str]) -> str:
    """As the column has them; no unit has a | in its name."""
    return "".join(["|", *(f"{unit}|" for unit in visible_to)]) if visible_to else ""


def audience_conditions(
    viewer: Viewer, kind: str, district_id: str, *, only_concerning: bool, has_columns: bool
) -> list[Condition]:
    """Of alarms. A file without the columns has none that only some see, and knows no districts."""
    if not has_columns:
        return [(_KIND_OF_BODY, [kind])] if kind else []
    named = f"|{viewer.unit}|"
    found: list[Condition] = []
    if viewer.unit != EVERY_UNIT:
        found.append(("(visible_to = '' OR instr(visible_to, ?))", [named]))
    if kind:
        found.append(("kind = ?", [kind]))
    if district_id:
        found.append(("district_id = ?", [district_id]))
    if only_concerning and viewer.districts:
        marks = ", ".join("?" * len(viewer.districts))
        districts = f"district_id IN ('', {marks}) OR instr(visible_to, ?)"
        found.append((f"({districts})", [*sorted(viewer.districts), named]))
    return found


def case_conditions(case: str, case_target: str, *, has_columns: bool) -> list[Condition]:
    """Of alarms; empty ones do not restrict. A file without the columns has none of a case."""
    if not case:
        return []
    if not has_columns:
        return [("0", [])]
    found: list[Condition] = [("case_number = ? AND case_number != ''", [case])]
    return [*found, ("case_target = ?", [case_target])] if case_target else found
