"""A rule that raises more alarms in a minute than people read: the rest of them is one notice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarms import Alarm, NoticeDigest
from bus.domain.visibility import EVERYTHING
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import SENT, after_attempt
from bus.notify.notice_text import notice_text
from ingest.store.port import PageRequest
from tests.alarm.dispatch.test_operations import alarm

MINUTE_MS = 60_000
AT_MS = 1_800_000_000_000
PLAN = NoticePlan(("log", "mail"), escalate_to=frozenset({"mail"}), escalate_after_ms=300_000,
                  alarms_a_minute=3)  # fmt: skip


def raised(number: int, rule: str = "r", at_ms: int = AT_MS) -> Alarm:
    return alarm(number, raised_at_ms=at_ms, rule_id=rule, alarm_id=f"{rule}:{number}")


def subjects(operations: OperationsStore, notifier: str = "log", at_ms: int = AT_MS) -> list[str]:
    return [one.subject for one in operations.notices.due(notifier, at_ms, 100)]


def test_beyond_the_first_of_a_minute_there_is_one_notice_when_the_minute_is_over(
    tmp_path: Path,
) -> None:
    """Each alarm is stored; another rule, and the next minute, count for themselves."""
    path = tmp_path / "operations.db"
    with closing(OperationsStore(path, PLAN)) as operations:
        crowd = [raised(number) for number in range(8)]
        others = [raised(8, "other"), raised(9, at_ms=AT_MS + MINUTE_MS)]
        operations.apply(BatchChanges(alarms=[*crowd, *others], now_ms=AT_MS))
        at_once = ["r:0", "r:1", "r:2", "other:8", "r:9"]
        assert subjects(operations) == at_once
        assert operations.notify_past_minutes(AT_MS) == 0
        assert operations.notify_past_minutes(AT_MS + MINUTE_MS) == 5
        assert operations.notify_past_minutes(AT_MS + MINUTE_MS) == 0
        found = operations.notices.due("log", AT_MS + MINUTE_MS, 100)
        assert [one.subject for one in found[:-1]] == at_once
        digest = msgspec.json.decode(found[-1].body, type=NoticeDigest)
        assert (digest.rule_id, digest.alarms, digest.ids) == ("r", 5, [f"r:{n}" for n in range(3, 8)])
        text = notice_text(found[-1].body, "en", ZoneInfo("UTC"))
        assert text.line == "[warning] more alarms of one rule in a minute: n, 5"
        assert "sent this before" not in text.text
        assert len(subjects(operations, "mail", AT_MS + MINUTE_MS)) == 0
        with closing(OperationsReader(path)) as reader:
            alarms, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=100))
        assert len(alarms) == 10


def test_an_alarm_of_a_digest_is_notified_when_the_digest_is(tmp_path: Path) -> None:
    """Not while it waits for its minute, nor for a mail server."""
    plan = NoticePlan(("log",), alarms_a_minute=3)
    with closing(OperationsStore(tmp_path / "operations.db", plan)) as operations:
        operations.apply(BatchChanges(alarms=[raised(n) for n in range(5)], now_ms=AT_MS))
        for notice in operations.notices.due("log", AT_MS, 100):
            operations.notices.record(after_attempt(notice, 0, SENT))
        assert _newly(operations) == ["r:0", "r:1", "r:2"]
        operations.notify_past_minutes(AT_MS + MINUTE_MS)
        assert _newly(operations) == ["r:0", "r:1", "r:2"]
        [notice] = operations.notices.due("log", AT_MS + MINUTE_MS, 100)
        operations.notices.record(after_attempt(notice, 0, SENT))
        assert _newly(operations) == [f"r:{n}" for n in range(5)]


def test_what_waits_for_its_digest_survives_a_kill_and_a_repeated_batch(tmp_path: Path) -> None:
    """It stands in the file with the alarm, and counts once."""
    path = tmp_path / "operations.db"
    batch = BatchChanges(alarms=[raised(n) for n in range(5)], now_ms=AT_MS)
    with closing(OperationsStore(path, PLAN)) as operations:
        operations.apply(batch)
    with closing(OperationsStore(path, PLAN)) as operations:
        operations.apply(batch)
        assert operations.notify_past_minutes(AT_MS + 2 * MINUTE_MS) == 2
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT alarms FROM rule_minutes").fetchall() == [(5,)]


def _newly(operations: OperationsStore) -> list[str]:
    return sorted(one.alarm_id for one in operations.newly_notified(AT_MS))
