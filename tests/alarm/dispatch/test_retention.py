"""Alarms and incidents leave the operations store after their days, slice by slice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch import retention
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.schema import _FROM_1, _TABLES, VERSION
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.topics import DAY_MS
from bus.domain.retention import DATA_TOPICS_DAYS, RetentionSettings
from bus.domain.visibility import EVERYTHING
from bus.notify.notice_plan import NoticePlan
from deploy.settings.composed import load
from deploy.settings.sources import SettingsError
from ingest.store.port import PageRequest
from tests.alarm.dispatch.test_operations import alarm, incident

NOW_MS = 1_800_000_000_000
KEEP = RetentionSettings(alarms_days=30, incidents_days=10)


def closed(name: str, days_ago: int) -> Incident:
    return msgspec.structs.replace(
        incident("closed", name), closed_at_ms=NOW_MS - days_ago * DAY_MS
    )


def raised(number: int, days_ago: int) -> Alarm:
    return alarm(number, raised_at_ms=NOW_MS - days_ago * DAY_MS)


def stored(path: Path) -> tuple[list[str], list[str]]:
    with closing(OperationsReader(path)) as reader:
        alarms, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest(limit=1000))
        incidents, _ = reader.incidents(page=PageRequest(limit=1000))
    return sorted(a.alarm_id for a in alarms), sorted(i.incident_id for i in incidents)


def test_what_is_past_its_days_goes_with_its_notices_and_the_rest_stays(tmp_path: Path) -> None:
    """An incident that is open stays, however old; so does everything where nothing is set."""
    path = tmp_path / "operations.db"
    operations = OperationsStore(path, NoticePlan(("log",)))
    operations.apply(
        BatchChanges(
            alarms=[raised(1, 31), raised(2, 29)],
            incidents=[incident("open", "still"), closed("old", 11), closed("new", 9)],
        )
    )
    assert operations.forget(RetentionSettings(), NOW_MS) == 0
    assert stored(path) == (["r:1", "r:2"], ["new", "old", "still"])
    assert operations.forget(KEEP, NOW_MS) == 2
    assert stored(path) == (["r:2"], ["new", "still"])
    due = [notice.subject for notice in operations.notices.due("log", NOW_MS, 99)]
    assert sorted(due) == ["new:closed", "r:2", "still:open"]
    operations.close()


def test_a_slice_is_bounded_and_takes_the_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order they were stored in: one from a clock that was ahead is in nobody's way."""
    monkeypatch.setattr(retention, "SLICE", 3)
    operations = OperationsStore(tmp_path / "operations.db")
    ahead = raised(99, -400)
    operations.apply(BatchChanges(alarms=[ahead, *(raised(n, 40 + n) for n in range(7))]))
    left = [
        len(stored(tmp_path / "operations.db")[0])
        for _ in range(4)
        if operations.forget(KEEP, NOW_MS) or True
    ]
    assert left == [5, 2, 1, 1]
    assert stored(tmp_path / "operations.db")[0] == ["r:99"]
    operations.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_taken_on(tmp_path: Path, version: int) -> None:
    """Its closed incidents have an end to be kept by, its alarms stay."""
    path = tmp_path / "operations.db"
    operations = OperationsStore(path)
    operations.apply(BatchChanges(alarms=[raised(1, 1)], incidents=[closed("old", 11)]))
    operations.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE suppressed; DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; DROP TABLE picture_copies; DROP TABLE shadow_alarms; DROP TABLE unnotified_alarms;"
            "DROP TABLE said_acknowledged; DROP TABLE shadow_incidents; DROP TABLE open_incidents; DROP INDEX alarms_by_time; DROP INDEX incidents_closed;"
            "ALTER TABLE incidents DROP COLUMN closed_at_ms; PRAGMA user_version = 2;"
        )
        if version == 1:
            db.executescript(
                "DROP INDEX notices_due; ALTER TABLE notices DROP COLUMN made_at_ms;"
                "CREATE INDEX notices_waiting ON notices (id); PRAGMA user_version = 1;"
            )
    again = OperationsStore(path)
    assert again.forget(KEEP, NOW_MS) == 1
    assert stored(path) == (["r:1"], [])
    again.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert "picture_copies" in _TABLES
    assert "picture_copies" not in _FROM_1


@pytest.mark.parametrize("days", [1, DATA_TOPICS_DAYS - 1])
def test_alarms_are_kept_at_least_as_long_as_the_records_they_are_made_of(days: int) -> None:
    """Else one that is matched again would be missing: refused with the key that says so."""
    with pytest.raises(SettingsError, match=r"alarms_days: .* at least as long"):
        load(flags=[f"retention.alarms_days={days}"], environment={})
    kept = load(flags=[f"retention.alarms_days={DATA_TOPICS_DAYS}"], environment={})
    assert kept.retention.alarms_days == DATA_TOPICS_DAYS
