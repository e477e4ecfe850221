"""One form of a plate in every list, notice and file; what the device wrote stays in the detail."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.alarms import Alarm
from bus.contracts.register import Register
from bus.domain.plates import plate_form, plate_text
from bus.notify.notice_text import notice_text
from ingest.store.port import RecordRow
from monitor.api.views import alarm_detail, alarm_row, live_record_row, record_row
from monitor.console.rows import live_alarm, live_record, written_plate
from monitor.i18n import texts
from monitor.live.live_record import LiveRecord

ZONE, REGISTER = ZoneInfo("Asia/Shanghai"), Register()
plates = st.one_of(
    st.text(st.sampled_from("浙沪AB12345７ａ·- \u200b\0*?#×"), max_size=12),
    st.sampled_from(["无牌", "unknown", "", "A" * 40, "浙A\u200b12345", "浙a·12345", "浙A*2345"]),
)


def alarm(plate: str) -> Alarm:
    return Alarm(
        alarm_id="a", rule_id="w-1", rule_name="rule", severity="info", record_id="r", kind="vehicle",
        checkpoint_id="c", captured_at_ms=1, received_at_ms=2, raised_at_ms=3, plate_number=plate,
    )  # fmt: skip


def shown(plate: str) -> dict[str, Any]:
    """What each list, and each place like one, shows of this plate."""
    row = RecordRow(
        record_id="r", kind="vehicle", checkpoint_id="c", district_id="d", camera_ip="", recognizer_ip="",
        captured_at_ms=1, received_at_ms=2, plate_number=plate, body=b"{}",
    )  # fmt: skip
    live = LiveRecord(
        record_id="r", kind="vehicle", checkpoint_id="c", camera_ip="", captured_at_ms=1, received_at_ms=2,
        plate_number=plate,
    )  # fmt: skip
    return {
        "records": record_row(row, REGISTER, ZONE)["plate"],
        "alarms": alarm_row(alarm(plate), REGISTER, ZONE)["plate"],
        "api of live records": live_record_row(live, REGISTER, ZONE)["plate"],
        "live alarms": live_alarm(alarm(plate), REGISTER, ZONE, texts("zh"))["plate"],
        "live records": live_record(live, REGISTER, ZONE, texts("zh"))["plate"],
    }


@given(plates)
def test_every_list_shows_the_same_form(plate: str) -> None:
    """An alarm showed the device's spelling, and nobody found it under what the search shows."""
    assert set(shown(plate).values()) == {plate_text(plate)}
    assert plate_text(plate) in (plate_form(plate) or plate, plate)
    assert alarm_row(alarm(plate), REGISTER, ZONE)["plate_number"] == plate


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_raw_text_and_what_was_left_out_stand_in_the_detail(language: str) -> None:
    """Only where it differs; an invisible character by its name."""
    t = texts(language)
    facts = written_plate(alarm_detail(alarm("浙a\u200b12345"), REGISTER, ZONE), t)
    assert [value for _, value in facts] == ["浙a\u200b12345", "U+200B ZERO WIDTH SPACE"]
    assert written_plate(alarm_detail(alarm("浙A12345"), REGISTER, ZONE), t) == []
    assert written_plate(alarm_detail(alarm("无牌"), REGISTER, ZONE), t) == []


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_notice_names_the_plate_in_this_form(language: Any) -> None:
    """A person types it into the search from a mail."""
    line = notice_text(msgspec.json.encode(alarm("浙a·１２３４５")), language, ZONE).line
    assert line.endswith("浙A12345")
