"""Who is told what and when: quiet hours, escalation, the end of an incident."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from bus.contracts.alarms import Incident
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import after_attempt
from tests.bus.notify.notice_file import INCIDENT, NoticeFile

ZONE = ZoneInfo("Asia/Shanghai")
MINUTE_MS = 60_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp() * 1000)


@pytest.mark.parametrize(
    ("span", "raised", "told"),
    [
        ("22:00-07:00", "2026-03-01 21:59", "2026-03-01 21:59"),
        ("22:00-07:00", "2026-03-01 22:00", "2026-03-02 07:00"),
        ("22:00-07:00", "2026-03-02 03:00", "2026-03-02 07:00"),
        ("22:00-07:00", "2026-03-02 07:00", "2026-03-02 07:00"),
        ("12:00-13:30", "2026-03-01 12:30", "2026-03-01 13:30"),
        ("12:00-13:30", "2026-03-01 14:00", "2026-03-01 14:00"),
    ],
)
def test_quiet_hours_put_a_notice_off_to_their_end(span: str, raised: str, told: str) -> None:
    """By the site's clock; the log and other severities know none."""
    plan = NoticePlan(("log", "mail"), {"warning": span}, zone=ZONE)
    assert plan.first_attempts("warning", at(raised), INCIDENT) == {"log": at(raised), "mail": at(told)}
    assert plan.first_attempts("critical", at(raised), INCIDENT) == {"log": at(raised), "mail": at(raised)}


PLAN = NoticePlan(("log", "mail", "sms"), {}, frozenset({"sms"}), 15 * MINUTE_MS, ZONE)
BEGUN_MS = at("2026-03-01 12:00")


def test_what_nobody_acknowledges_is_told_to_others_after_a_while(tmp_path: Path) -> None:
    """Not a minute earlier; what is acknowledged before is not."""
    file = NoticeFile(tmp_path / "n.db", PLAN)
    file.add("r:1", BEGUN_MS)
    file.add("r:2", BEGUN_MS)
    with file.transaction() as db:
        file.notices.withdraw(db, "r:2", "acknowledged by Wang")
    both = [(name, f"r:{n}") for name in ("log", "mail") for n in (1, 2)]
    assert file.due_at(BEGUN_MS + 14 * MINUTE_MS) == both
    assert file.due_at(BEGUN_MS + 15 * MINUTE_MS) == [*both, ("sms", "r:1")]
    file.close()


@pytest.mark.parametrize("has_escalated", [False, True])
def test_the_end_of_an_incident_is_told_to_whom_its_beginning_was(
    tmp_path: Path, has_escalated: bool
) -> None:
    """And it escalates no more."""
    file = NoticeFile(tmp_path / "n.db", PLAN)
    opened = Incident(incident_id="i", kind="away", state="open", opened_at_ms=1)
    closed = Incident(incident_id="i", kind="away", state="closed", opened_at_ms=1, closed_at_ms=2)
    with file.transaction() as db:
        file.notices.add_incident(db, opened, b"{}", BEGUN_MS)
    late_ms = BEGUN_MS + 20 * MINUTE_MS
    if has_escalated:
        (notice,) = file.notices.due("sms", late_ms, 10)
        file.notices.record(after_attempt(notice, 0, "sent"))
    with file.transaction() as db:
        file.notices.add_incident(db, closed, b"{}", late_ms)
    told = [("log", "i:open"), ("log", "i:closed"), ("mail", "i:open"), ("mail", "i:closed")]
    assert file.due_at(late_ms) == [*told, *([("sms", "i:closed")] if has_escalated else [])]
    file.close()
