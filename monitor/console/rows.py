"""View models (pure): API rows in one language, grid columns, texts of rules.

In: rows, texts. Out: plain dicts for the browser. Never: NiceGUI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from bus.contracts.alarms import Alarm
from bus.contracts.commands import WatchCommand
from bus.contracts.keys import PLACE_AND_TIME
from bus.contracts.register import Register
from bus.domain.expressions.to_text import to_text
from bus.domain.kinds import KEYS_AS_STORED, KEYS_OF_KIND
from bus.domain.plates import left_out
from bus.domain.times import MINUTE_MS
from monitor.api.views import alarm_row, clock, live_record_row
from monitor.i18n import Texts
from monitor.live.alarm_digests import AlarmDigest
from monitor.live.live_record import LiveRecord
from monitor.models.device_clock import ClockEstimate, Jump
from monitor.ports import ProcessStatus

Row = dict[str, Any]


def place_field(t: Texts) -> str:
    """Which of an API row's two names of a checkpoint this language shows."""
    return "checkpoint" if t.language == "zh" else "checkpoint_en"


def live_record(one: LiveRecord, register: Register, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the live records."""
    row = live_record_row(one, register, zone)
    return {
        "id": row["record_id"],
        "time": row["captured_at"][11:],
        "kind": one.kind,
        "plate": row["plate"],
        "place": row[place_field(t)],
        "features": features_text(one.features, t),
        "picture": row["picture"],
    }


def district_names(register: Register, t: Texts) -> dict[str, str]:
    """By id, in the language of the page."""
    is_english = place_field(t) == "checkpoint_en"
    return {
        one.district_id: (one.name_en if is_english else one.name) or one.district_id
        for one in register.districts
    }


def live_alarm(alarm: Alarm, register: Register, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the live alarms."""
    row = alarm_row(alarm, register, zone)
    return {
        "id": alarm.alarm_id,
        "time": row["captured_at"][11:],
        "severity": alarm.severity,
        "rule": alarm.rule_name or alarm.rule_id,
        "plate": row["plate"],
        "place": row[place_field(t)],
        "reaction_ms": row["reaction_ms"],
        "picture": row["picture"],
    }


def live_digest(digest: AlarmDigest, zone: ZoneInfo, t: Texts) -> Row:
    """The row of the live alarms that stands for the rest of a rule's in a minute; `asked` is what
    the page of alarms is asked for to show all of that minute."""
    moments = (digest.minute_ms, digest.minute_ms + MINUTE_MS)
    from_, until = (clock(ms, zone)[:16] for ms in moments)
    return {
        "id": digest.digest_id,
        "time": clock(digest.raised_at_ms, zone)[11:],
        "severity": digest.severity,
        "rule": digest.rule_name or digest.rule_id,
        "plate": f"+ {digest.count:,}",
        "place": t("live.digest", minute=from_[11:]),
        "reaction_ms": None,
        "picture": "",
        "asked": {"rule": digest.rule_id, "from": from_, "until": until},
    }


def further_facts(row: Row, t: Texts) -> list[tuple[str, str]]:
    """How many further passages an alarm stands for, if any."""
    count = row["further_passages"]
    return [(t("detail.further"), t("detail.further_passages", count=count))] if count else []


def visible_facts(row: Row, t: Texts) -> list[tuple[str, str]]:
    """Which units see an alarm, where not everybody does."""
    units = t("list.comma").join(row["visible_to"])
    return [(t("alarm.visible_to"), units)] if units else []


def case_facts(row: Row, t: Texts) -> list[tuple[str, str]]:
    """Of an alarm: under which case its rule was put, and whom of that case it is about."""
    return [(t("alarm.case"), row["case"]), (t("alarm.case_target"), row["case_target"])]


_SPANS = (("s", 1_000, 120_000), ("min", 60_000, 7_200_000), ("h", 3_600_000, 172_800_000),
          ("d", 86_400_000, 63_072_000_000), ("y", 31_536_000_000, 1 << 62))  # fmt: skip


def span_text(span_ms: int, t: Texts) -> str:
    """A span of time of any length in the unit that reads best."""
    unit, unit_ms, _ = next(one for one in _SPANS if abs(span_ms) < one[2])
    return t(f"span.{unit}", value=f"{abs(span_ms) / unit_ms:,.1f}")


def clock_row(row: Row, known: ClockEstimate | None, t: Texts, zone: ZoneInfo) -> Row:
    """One row of the devices whose clock is off; what is not known of it is a dash."""
    jumps = known.jumps if known else ()
    drift_ppm = known.drift_ppm if known else None
    return {
        **row,
        "id": f"{row['kind']}|{row['camera_ip']}",
        "clock_off": clock_text(row["clock_off_ms"], t),
        "clock_drift": "–" if drift_ppm is None else t("clock.drift", ppm=f"{drift_ppm:+,.1f}"),
        "clock_jumps": " · ".join(_jump_text(jump, t, zone) for jump in reversed(jumps)) or "–",
    }


def clock_text(off_ms: int, t: Texts) -> str:
    """How far a clock is off, and which way."""
    way = "ahead" if off_ms > 0 else "behind"
    return t(f"clock.{way}", span=span_text(off_ms, t))


def _jump_text(jump: Jump, t: Texts, zone: ZoneInfo) -> str:
    way = "forwards" if jump.by_ms > 0 else "back"
    at = clock(jump.at_ms, zone)[:16]
    return t(f"clock.jump_{way}", at=at, span=span_text(jump.by_ms, t))


def features_text(features: Mapping[str, str], t: Texts) -> str:
    """What a device saw, in one line. A vehicle's words speak for themselves; "no · yes" of a face
    does not, so its features have their names."""
    parts = []
    for attribute, value in features.items():
        if attribute == "age_to" and "age_from" in features:
            continue
        text = t.value(attribute, value)
        if attribute == "age_from" and "age_to" in features:
            text = f"{t('attribute.age')} {value}–{features['age_to']}"
        elif not attribute.startswith(("vehicle_", "plate_")):
            text = f"{t.word('attribute', attribute)} {text}"
        parts.append(text)
    return " · ".join(parts)


_ATTRIBUTES = {key: name for table in KEYS_OF_KIND.values() for key, name in table.items()}
_OWN_COLUMNS = {*PLACE_AND_TIME.values(), "plate_number", "plate_color", "vehicle_color",
                "vehicle_type", "vehicle_brand", "vehicle_series"}  # fmt: skip


def body_facts(kind: str, body: Any, t: Texts) -> list[tuple[str, str]]:
    """Name and value of what a device wrote beyond a record's own columns, as far as both have a
    word in this language; no picture addresses and no vectors."""
    if not isinstance(body, dict):
        return []
    found = []
    for key, value in body.items():
        attribute = KEYS_AS_STORED.get(kind, {}).get(key, "")
        name = t.table.get(f"attribute.{attribute}", "")
        if name and attribute not in _OWN_COLUMNS and isinstance(value, (str, int, float)):
            found.append((name, t.value(attribute, str(value))))
    return found


def written_plate(row: Row, t: Texts) -> list[tuple[str, str]]:
    """A plate as the device wrote it, where that is not how it is shown, and what was left out of
    it, by name: an invisible character cannot be seen in the text."""
    if row["plate_number"] == row["plate"]:
        return []
    gone = t("list.comma").join(left_out(row["plate_number"]))
    written = (t("detail.plate_written"), row["plate_number"])
    return [written, (t("detail.plate_left_out"), gone)]


def listed_facts(listed: Row | None, t: Texts) -> list[tuple[str, str]]:
    """By which line of which list an alarm's plate was meant."""
    if not listed:
        return []
    number, plate = listed.get("line", 0), listed.get("plate", "")
    line = t("detail.listed_line", line=number, plate=plate) if number else plate
    named = f"{listed['name']} ({listed['list_id']})"
    return [
        (t("detail.listed"), t("list.comma").join((named, line))),
        (t("column.list_date"), listed.get("list_date", "")),
        (t("column.line_date"), listed.get("date", "")),
        (t("reading.candidate"), candidate_text(listed.get("candidate", ""), listed, t)),
        (t("detail.listed_note"), listed.get("note", "")),
        (t("detail.listed_version"), str(listed["version"])),
        (t("column.overdue"), t("detail.listed_overdue") if listed.get("is_overdue") else ""),
    ]


def face_facts(face: Row | None, t: Texts) -> list[tuple[str, str]]:
    """Which face of which gallery an alarm's record resembles, and how much."""
    if not face:
        return []
    score = t("detail.face_score", score=f"{face['score']:.3f}",
              threshold=f"{face['threshold']:g}", model=face["model"],
              measure=t(f"measure.{face['measure']}"))  # fmt: skip
    return [
        (t("detail.gallery"), f"{face['name']} ({face['list_id']})"),
        (t("detail.face_entry"), face["entry"]),
        (t("column.list_line"), str(face.get("line", ""))),
        (t("detail.face_resemblance"), score),
        (t("detail.listed_note"), face.get("note", "")),
        (t("column.line_date"), face.get("date", "")),
        (t("column.list_date"), face.get("list_date", "")),
        (t("detail.listed_version"), str(face["version"])),
        (t("column.overdue"), t("detail.listed_overdue") if face.get("is_overdue") else ""),
    ]


def misread_facts(misread: Row | None, t: Texts) -> list[tuple[str, str]]:
    """What was read where another plate was meant, and what that costs."""
    return [(t("detail.misread"), misread_text(misread, t))] if misread else []


def misread_text(misread: Row, t: Texts) -> str:
    """As one sentence."""
    prices = {name: f"{misread[name]:.2f}" for name in ("price", "highest")}
    read = candidate_text(misread["read"], misread, t) or misread["read"]
    return t("reading.misread", plate=misread["plate"], read=read, **prices)


def candidate_text(plate: str, row: Row, t: Texts) -> str:
    """A further candidate of the reader with its weight; empty where the plate is none."""
    weight = row.get("weight", 0)
    return t("reading.weighed", plate=plate, weight=f"{weight:.0%}") if weight else ""


def key_text(key: str, t: Texts) -> str:
    """The name of a key of a device's message; in Chinese the key itself is its name."""
    attribute = _ATTRIBUTES.get(key, "")
    if t.language == "zh" or not attribute:
        return key
    groups = ("attribute", "column", "picture")
    words = (t.table.get(f"{group}.{attribute}", "") for group in groups)
    return next(filter(None, words), attribute.replace("_", " "))


def key_words(t: Texts) -> dict[str, str]:
    """The names of all keys of devices' messages, for the browser."""
    return {key: key_text(key, t) for key in _ATTRIBUTES}


def picture_caption(key: str, t: Texts) -> str:
    """What a picture shows, by the key under which its address stands."""
    attribute = _ATTRIBUTES.get(key, "")
    return t.table.get(f"picture.{attribute}", key.removesuffix("地址"))


def process_row(process: ProcessStatus, zone: ZoneInfo, t: Texts) -> Row:
    """One row of the product's processes; `broker-2` is broker 2 of a cluster."""
    kind, _, number = process.role.partition("-")
    return {
        "id": process.role,
        "process": f"{t.word('process', kind)} {number}".strip(),
        "state": t.word("process_state", process.state),
        "is_well": process.state == "running",
        "pid": process.pid,
        "restarts": process.restarts,
        "since": clock(process.since_ms or 0, zone)[:19],
    }


def incident_text(detail: Mapping[str, str], t: Texts) -> str:
    """The detail of an incident: the names of its numbers in words."""
    hidden = ("place", "place_en", "address", "stage" if "subject" in detail else "")
    visible = {k: v for k, v in detail.items() if k not in hidden}
    return t("list.comma").join(_incident_fact(key, value, t) for key, value in visible.items())


def _incident_fact(key: str, value: str, t: Texts) -> str:
    name, _, reason = key.partition(":")
    if reason:
        return f"{t.word('reason', reason)} {value}"
    if name == "class":
        value = t.word("kind", value)
    elif name == "scope":
        value = t.word("scope", value)
    elif name == "subject":
        part, space, rest = value.partition(" ")
        value = f"{t.word('part', part)}{space}{rest}"
    elif name == "course":
        value = t.word("course", value)
    elif name == "why":
        value = t.word("process_state", value)
    elif name == "reason":
        value = t.word("end", value)
    elif name.endswith("_ms") and value.lstrip("-").isdecimal():
        value = span_text(int(value), t)
    return f"{t.word('fact', name)} {value}"


def match_text(match: Mapping[str, list[str]], t: Texts) -> str:
    """The conditions of a rule in words."""
    return t("list.semicolon").join(
        f"{t.word('attribute', attribute)} = {' / '.join(_alternatives(attribute, values, t))}"
        for attribute, values in match.items()
    )


def rule_text(rule: WatchCommand, t: Texts, zone: str) -> str:
    """All that a rule asks: its conditions in words, its tree as it is written."""
    where = [to_text(rule.where, zone)] if rule.where is not None else []
    return t("list.semicolon").join(filter(None, (match_text(rule.match, t), *where)))


def _alternatives(attribute: str, values: list[str], t: Texts) -> list[str]:
    """Once each: a rule may ask for a value in both languages."""
    return list(dict.fromkeys(t.value(attribute, value) for value in values))


def values_of(text: str, *, by_space: bool) -> list[str]:
    """Several values typed into one field: commas of both scripts, and spaces if asked for."""
    for separator in ("，", "、", ";", "；", "\n", *((" ", "\u3000") if by_space else ())):
        text = text.replace(separator, ",")
    return [part.strip() for part in text.split(",") if part.strip()]


DEED: Row = {"deed": True}
"""Context of a column whose cells are clicked to do something: on a telephone it stays beside the
card (`console.js`)."""


def column(t: Texts, key: str, field: str, **options: Any) -> Row:
    """A column of a grid; `renderer` names a function of `console.js`. What it returns as a string
    is shown as it is: the grid itself would read it as HTML."""
    made: Row = {"headerName": t(f"column.{key}"), "field": field}
    renderer = options.pop("renderer", "")
    if renderer:
        made[":cellRenderer"] = f"databus.asText(databus.{renderer})"
    if options.pop("number", False):
        made["cellClass"] = ["num", "ag-right-aligned-cell"]
        made["headerClass"] = "ag-right-aligned-header"
    return made | options


def value_column(t: Texts, attribute: str, **options: Any) -> Row:
    """A column of values of devices, in the language of the page where they are known ones."""
    return {
        "headerName": t(f"attribute.{attribute}"),
        "field": attribute,
        ":cellRenderer": "databus.asText(databus.value)",
        **options,
    }


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
