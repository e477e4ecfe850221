"""View models (pure): API rows in one language, grid columns, texts of rules.

In: rows, texts. Out: plain dicts for the browser. Never: NiceGUI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from bus.contracts.alarms import Alarm
from bus.contracts.commands import WatchCommand
from bus.contracts.register import Register
from monitor.api.views import alarm_row, clock, sighting_row
from monitor.console.i18n import Texts
from monitor.hub.sighting import Sighting

Row = dict[str, Any]


def place_field(t: Texts) -> str:
    """Which of an API row's two names of a checkpoint this language shows."""
    return "checkpoint" if t.language == "zh" else "checkpoint_en"


def live_record(one: Sighting, register: Register, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the live records."""
    row = sighting_row(one, register, zone)
    return {
        "id": row["record_id"],
        "time": row["captured_at"][11:],
        "kind": one.kind,
        "plate": one.plate_number,
        "place": row[place_field(t)],
        "features": " · ".join(one.features.values()),
        "picture": row["picture"],
    }


def live_alarm(alarm: Alarm, register: Register, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the live alarms."""
    row = alarm_row(alarm, register, zone)
    return {
        "id": alarm.alarm_id,
        "time": row["captured_at"][11:],
        "severity": alarm.severity,
        "rule": alarm.rule_name or alarm.rule_id,
        "plate": alarm.plate_number,
        "place": row[place_field(t)],
        "reaction_ms": row["reaction_ms"],
        "picture": row["picture"],
    }


_SPANS = (("s", 1_000, 120_000), ("min", 60_000, 7_200_000), ("h", 3_600_000, 172_800_000),
          ("d", 86_400_000, 63_072_000_000), ("y", 31_536_000_000, 1 << 62))  # fmt: skip


def span_text(span_ms: int, t: Texts) -> str:
    """A span of time of any length in the unit that reads best."""
    unit, unit_ms, _ = next(one for one in _SPANS if abs(span_ms) < one[2])
    return t(f"span.{unit}", value=f"{abs(span_ms) / unit_ms:,.1f}")


def clock_row(row: Row, t: Texts) -> Row:
    """One row of the devices whose clock is off."""
    off_ms = row["clock_off_ms"]
    way = "ahead" if off_ms > 0 else "behind"
    return {
        **row,
        "id": f"{row['kind']}|{row['camera_ip']}",
        "clock_off": t(f"clock.{way}", span=span_text(off_ms, t)),
    }


def match_text(match: Mapping[str, list[str]], t: Texts) -> str:
    """The conditions of a rule in words."""
    return "；".join(
        f"{t.word('attribute', attribute)} = {' / '.join(values)}"
        for attribute, values in match.items()
    )


def rule_view(rule: WatchCommand, hits: int, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the watch list."""
    until = clock(rule.valid_until_ms, zone)[:16] or t("watch.forever")
    begin = clock(rule.valid_from_ms, zone)[:16]
    return {
        "id": rule.rule_id,
        "severity": rule.severity,
        "kind": rule.kind,
        "name": rule.name,
        "match": match_text(rule.match, t),
        "validity": f"{begin} – {until}" if begin else until,
        "author": rule.author,
        "note": rule.note,
        "hits": hits,
    }


def values_of(text: str, *, by_space: bool) -> list[str]:
    """Several values typed into one field: commas of both scripts, and spaces where told."""
    for separator in ("，", "、", ";", "；", "\n", *((" ", "\u3000") if by_space else ())):
        text = text.replace(separator, ",")
    return [part.strip() for part in text.split(",") if part.strip()]


def column(t: Texts, key: str, field: str, **options: Any) -> Row:
    """A column of a grid; `renderer` names a function of `console.js`."""
    made: Row = {"headerName": t(f"column.{key}"), "field": field}
    renderer = options.pop("renderer", "")
    if renderer:
        made[":cellRenderer"] = f"databus.{renderer}"
    if options.pop("number", False):
        made["cellClass"] = ["num", "ag-right-aligned-cell"]
        made["headerClass"] = "ag-right-aligned-header"
    return made | options


def severity_column(t: Texts, **options: Any) -> Row:
    """Stripe and word, never colour alone."""
    return column(t, "severity", "severity", renderer="severity", width=84) | {
        ":cellClass": "databus.severityClass",
        **options,
    }


def grid_options(t: Texts, columns: list[Row], **options: Any) -> Row:
    """Dense rows, our words, rows known by their `id`."""
    return {
        "columnDefs": columns,
        "defaultColDef": {"sortable": False, "resizable": True, "suppressMovable": True},
        "localeText": t.group("grid"),
        "rowHeight": 32,
        "headerHeight": 32,
        "suppressCellFocus": False,
        "animateRows": False,
        ":getRowId": "p => String(p.data.id)",
        ":onGridReady": "e => databus.fit(e.api)",
        "includeHiddenColumnsInQuickFilter": True,  # a card's columns are hidden
        **options,
    }
