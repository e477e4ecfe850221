"""The watch's own file: what was written survives a kill; each incident is told once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.contracts.alarms import Incident
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import after_attempt
from deploy.paths import PROJECT_ROOT
from monitor.watch.habits import Habit
from monitor.watch.incident_file import KEEP_MS, IncidentFile, IncidentFileError
from monitor.watch.senders import SavedHabit

WRITER = """
import sys, pathlib
from bus.contracts.alarms import Incident
from bus.notify.notice_plan import NoticePlan
from monitor.watch.incident_file import IncidentFile
file = IncidentFile(pathlib.Path(sys.argv[1]), NoticePlan(("log",)))
for n in range(1_000_000):
    file.add([(Incident(incident_id=str(n), kind="away", state="open", opened_at_ms=n), [])], n)
    print(n, flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[IncidentFile]:
    file = IncidentFile(tmp_path / "watch.db", NoticePlan(("log", "webhook",)))
    yield file
    file.close()


def incident(state: str = "open", name: str = "away:edge:1") -> Incident:
    closed_ms = 2 if state == "closed" else 0
    return Incident(incident_id=name, kind="away", state=state, opened_at_ms=1,  # type: ignore[arg-type]
                    closed_at_ms=closed_ms)  # fmt: skip


def test_an_opening_and_an_end_are_notified_and_published_once_each(file: IncidentFile) -> None:
    """Whatever is written again."""
    for one in (incident(), incident(), incident("closed"), incident("closed"), incident()):
        file.add([(one, [])], 1)
    for notifier in ("log", "webhook"):
        subjects = [notice.subject for notice in file.notices.due(notifier, 10, 10)]
        assert subjects == ["away:edge:1:open", "away:edge:1:closed"]
    assert [one.state for _, one in file.unpublished(10)] == ["open", "closed"]
    for row_id, _ in file.unpublished(10):
        file.mark_published(row_id)
    assert file.unpublished(10) == []


def test_only_what_has_no_end_is_gone_on_with(file: IncidentFile) -> None:
    """With those who belong to it now."""
    file.add([(incident(), []), (incident(name="b"), [("device", "1")])], 1)
    file.add([(incident("closed"), [])], 2)
    file.save([], [("b", [("device", "1"), ("device", "2")])], 3)
    ((found, members),) = file.open_incidents()
    assert (found.incident_id, members) == ("b", [("device", "1"), ("device", "2")])


def test_a_notice_waits_for_its_time_and_only_its_notifier(file: IncidentFile) -> None:
    """A retry of one says nothing about the other."""
    file.add([(incident(), [])], 1)
    (notice,) = file.notices.due("log", 1, 10)
    file.notices.record(after_attempt(notice, 100))
    assert file.notices.due("log", 99, 10) == []
    assert [n.attempts for n in file.notices.due("log", 100, 10)] == [1]
    file.notices.record(after_attempt(notice, 0, "sent"))
    assert file.notices.due("log", 1_000, 10) == []
    assert len(file.notices.due("webhook", 1, 10)) == 1


def test_habits_are_kept_and_forgotten_by_name(file: IncidentFile, tmp_path: Path) -> None:
    """Across processes."""
    habit = Habit()
    habit.learn_hour(9, 60)
    rows = [SavedHabit("device", name, "s", habit.to_bytes()) for name in "ab"]
    file.save(rows, [], 1)
    file.forget_habits([("device", "a")])
    file.close()
    again = IncidentFile(tmp_path / "watch.db", NoticePlan(()))
    (kept,) = again.habits()
    assert (kept.address, kept.body) == ("b", habit.to_bytes())
    assert Habit.from_bytes(kept.body).to_bytes() == habit.to_bytes()
    again.close()


def test_what_ended_long_ago_and_was_published_is_dropped(file: IncidentFile) -> None:
    """Not what nobody has heard of yet, nor what is still open."""
    file.add([(incident(), []), (incident("closed"), []), (incident(name="b"), [])], 1)
    file.save([], [], KEEP_MS + 2)
    assert len(file.unpublished(10)) == 3
    for row_id, _ in file.unpublished(10):
        file.mark_published(row_id)
    file.save([], [], KEEP_MS + 2)
    assert [one.incident_id for one, _ in file.open_incidents()] == ["b"]
    file.add([(incident(), [])], 1)
    assert len(file.unpublished(10)) == 1  # the dropped name is free again


def test_two_watches_cannot_write_one_file(file: IncidentFile, tmp_path: Path) -> None:
    """The second says what to do."""
    with pytest.raises(IncidentFileError, match="stop that one"):
        IncidentFile(tmp_path / "watch.db", NoticePlan(()))


def test_what_was_written_survives_kill_9(tmp_path: Path) -> None:
    """Every incident that the writer had finished, each with its notice."""
    path = tmp_path / "watch.db"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=PROJECT_ROOT
    )
    assert writer.stdout is not None
    for _ in range(200):
        last = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    file = IncidentFile(path, NoticePlan(("log",)))
    kept = len(file.open_incidents())
    assert kept > last
    assert len(file.notices.due("log", 1 << 60, 1 << 20)) == kept
    file.close()


def test_a_file_of_a_later_version_is_refused(file: IncidentFile, tmp_path: Path) -> None:
    """It is not rewritten."""
    file.close()
    import sqlite3

    with sqlite3.connect(tmp_path / "watch.db") as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(IncidentFileError, match="99"):
        IncidentFile(tmp_path / "watch.db", NoticePlan(()))
