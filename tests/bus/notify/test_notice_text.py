"""What people read: both languages, every kind, nothing that a device could smuggle in."""

from __future__ import annotations

from typing import get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.contracts.alarms import (
    Alarm,
    Incident,
    IncidentKind,
    ListedFace,
    ListedPlate,
    ReadingPrice,
)
from bus.notify.notice_text import MAX_LINE, Language, notice_text

ZONE = ZoneInfo("Asia/Shanghai")
ALARM = Alarm(alarm_id="r:1", rule_id="r", rule_name="被盗车辆", severity="critical", record_id="1",
              kind="vehicle", checkpoint_id="310105001", captured_at_ms=1_500_000_000_000,
              received_at_ms=1, raised_at_ms=1, plate_number="浙AWL999", camera_ip="10.0.0.7")  # fmt: skip


@pytest.mark.parametrize(
    ("language", "line"),
    [("zh", "[严重] 告警: 被盗车辆 浙AWL999"), ("en", "[critical] alarm: 被盗车辆 浙AWL999")],
)
def test_an_alarm_says_rule_plate_place_and_time(language: Language, line: str) -> None:
    """In the site's language and time."""
    found = notice_text(msgspec.json.encode(ALARM), language, ZONE)
    assert found.line == line
    for word in ("310105001", "10.0.0.7", "2017-07-14 10:40:00", "r:1"):
        assert word in found.text


def test_an_alarm_of_an_emergency_rule_is_named_so() -> None:
    alarm = msgspec.json.encode(msgspec.structs.replace(ALARM, is_emergency=True))
    lines = [notice_text(alarm, language, ZONE).line for language in get_args(Language)]
    assert lines == ["[严重] 紧急布控告警: 被盗车辆 浙AWL999", "[critical] emergency alarm: 被盗车辆 浙AWL999"]


def test_an_alarm_of_a_list_names_it_its_line_and_date_and_says_when_it_was_not_renewed_in_time() -> None:
    listed = ListedPlate(list_id="stolen", name="被盗车辆", version=1, line=12, note="case 7", list_date="2026-11-01")
    for is_overdue, en, zh in ((False, "", ""), (True, ", not renewed in time", ", 逾期未更新")):
        found = msgspec.structs.replace(ALARM, listed=msgspec.structs.replace(listed, is_overdue=is_overdue))
        body = msgspec.json.encode(found)
        lines = {language: notice_text(body, language, ZONE).text.splitlines() for language in get_args(Language)}
        assert f"list: 被盗车辆 (stolen), line 12, case 7, 2026-11-01{en}" in lines["en"]
        assert f"名单: 被盗车辆 (stolen), 第 12 行, case 7, 2026-11-01{zh}" in lines["zh"]
    added = msgspec.structs.replace(ALARM, listed=ListedPlate(list_id="stolen", name="被盗车辆", version=1))
    assert "list: 被盗车辆 (stolen)" in notice_text(msgspec.json.encode(added), "en", ZONE).text.splitlines()


def test_an_alarm_of_a_gallery_says_whom_the_face_resembles_and_how_much() -> None:
    face = ListedFace(
        list_id="wanted", name="Wanted", version=7, entry="P7", score=0.87341, threshold=0.6, model="m/1",
        measure="cosine", note="case 7", list_date="2026-11-01",
    )  # fmt: skip
    alarm = msgspec.json.encode(msgspec.structs.replace(ALARM, plate_number="", resembled=face))
    found = notice_text(alarm, "en", ZONE)
    assert found.line.endswith(" P7")
    assert "resembles: wanted P7, case 7, 2026-11-01, score 0.873, threshold 0.6, m/1" in found.text
    assert "相似人脸: wanted P7, case 7, 2026-11-01, 相似度 0.873（阈值 0.6，m/1）" in notice_text(alarm, "zh", ZONE).text


def test_an_alarm_of_a_misread_plate_says_which_one_is_meant() -> None:
    reading = ReadingPrice(plate="浙AWL999", read="浙AW1999", price=0.512, highest=1.0)
    alarm = msgspec.json.encode(msgspec.structs.replace(ALARM, plate_number="浙AW1999", misread=reading))
    assert "误读: 目标为 浙AWL999，代价 0.51（上限 1.00）" in notice_text(alarm, "zh", ZONE).text
    assert "浙AWL999 is meant, price 0.51 of at most 1.00" in notice_text(alarm, "en", ZONE).text
    assert "misread" not in notice_text(msgspec.json.encode(ALARM), "en", ZONE).text


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", get_args(IncidentKind))
@pytest.mark.parametrize("state", ["open", "closed"])
def test_every_kind_of_incident_has_its_words(
    language: Language, kind: IncidentKind, state: str
) -> None:
    """Beginning and end differ."""
    values = {"incident_id": "i", "kind": kind, "state": state, "opened_at_ms": 1, "detail": {"subject": "edge"}}
    found = notice_text(msgspec.json.encode(values), language, ZONE)
    assert "edge" in found.line
    assert ("故障结束" in found.line or "incident ends" in found.line) == (state == "closed")


def test_what_devices_write_cannot_add_lines_or_grow_without_bound() -> None:
    """A plate with a line break would add a header to the mail."""
    hostile = msgspec.structs.replace(ALARM, plate_number="x\r\nBcc: all@example.org\x00" + "y" * 9000)
    found = notice_text(msgspec.json.encode(hostile), "en", ZONE)
    assert found.line.isprintable()
    assert len(found.line) <= MAX_LINE
    assert not any(row.startswith("Bcc") for row in found.text.splitlines())


def test_an_incident_is_not_taken_for_an_alarm() -> None:
    """By the keys that each must have."""
    body = msgspec.json.encode(Incident(incident_id="i", kind="lost", state="open", opened_at_ms=1))
    assert "incident begins" in notice_text(body, "en", ZONE).line
