"""What somebody has taken in hand is not told to others."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bus.notify.acknowledgements import KEEP_MS, Acknowledgements, AcknowledgementsUnavailable
from bus.notify.delivery import NoticeDelivery
from bus.notify.notice_metrics import NoticeMetrics
from bus.notify.notice_plan import NoticePlan
from bus.settings import SiteSettings
from deploy.paths import PROJECT_ROOT
from tests.bus.notify.notice_file import NoticeFile
from tests.bus.notify.test_delivery import ListedNotices, until

NOW_MS = 1_700_000_000_000


@pytest.fixture
def acknowledgements(tmp_path: Path) -> Acknowledgements:
    return Acknowledgements(SiteSettings(data_dir=str(tmp_path)))


def test_the_first_is_noted_and_known_by_the_notice_of_the_beginning(
    acknowledgements: Acknowledgements,
) -> None:
    """Of an alarm or an incident; the end of an incident is told all the same."""
    assert acknowledgements.who("r:1") == ""
    assert acknowledgements.add("r:1", "Wang", NOW_MS) == "Wang"
    assert acknowledgements.add("r:1", "Li", NOW_MS) == "Wang"
    acknowledgements.add("away:broker", "Li", NOW_MS)
    subjects = ("r:1", "away:broker:open", "away:broker:closed", "r:2")
    assert [acknowledgements.who(one) for one in subjects] == ["Wang", "Li", "", ""]


def test_old_ones_are_forgotten(acknowledgements: Acknowledgements) -> None:
    """The file does not grow for ever."""
    acknowledgements.add("r:1", "Wang", NOW_MS)
    acknowledgements.add("r:2", "Wang", NOW_MS + KEEP_MS + 1)
    assert (acknowledgements.who("r:1"), acknowledgements.who("r:2")) == ("", "Wang")


def test_processes_write_it_at_the_same_time(tmp_path: Path, acknowledgements: Acknowledgements) -> None:
    """Console and command line: nothing is lost, nobody is refused."""
    script = (
        "import sys; from bus.settings import SiteSettings;"
        " from bus.notify.acknowledgements import Acknowledgements;"
        " known = Acknowledgements(SiteSettings(data_dir=sys.argv[1]));"
        f" [known.add(f'{{sys.argv[2]}}:{{n}}', 'x', {NOW_MS}) for n in range(20)]"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], cwd=PROJECT_ROOT)
        for name in "abc"
    ]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert all(acknowledgements.who(f"{name}:{n}") for name in "abc" for n in range(20))


def test_a_file_that_is_just_being_made_says_that_nobody_has_anything_in_hand(
    tmp_path: Path, acknowledgements: Acknowledgements
) -> None:
    """It is there a moment before its table is."""
    (tmp_path / "notices").mkdir()
    (tmp_path / "notices" / "acknowledged.db").touch()
    assert (acknowledgements.who("r:1"), acknowledgements.all_names()) == ("", {})
    assert acknowledgements.since(0) == []


def test_a_file_that_cannot_be_is_said(tmp_path: Path, acknowledgements: Acknowledgements) -> None:
    """With its path."""
    (tmp_path / "notices").write_text("in the way")
    with pytest.raises(AcknowledgementsUnavailable, match="notices"):
        acknowledgements.add("r:1", "Wang", NOW_MS)


async def test_what_is_acknowledged_is_not_escalated(
    tmp_path: Path, acknowledgements: Acknowledgements
) -> None:
    """The others are."""
    plan = NoticePlan(("sms",), {}, frozenset({"sms"}), 0)
    file = NoticeFile(tmp_path / "n.db", plan)
    for subject in ("r:1", "r:2", "i:open"):
        file.add(subject, NOW_MS)
    acknowledgements.add("r:1", "Wang", NOW_MS)
    acknowledgements.add("i", "Li", NOW_MS)
    one = ListedNotices("sms")
    delivery = NoticeDelivery(file.notices, one, 1, sqlite3.Error, acknowledgements.who, metrics=NoticeMetrics(CollectorRegistry()))
    task = asyncio.create_task(delivery.run())
    await until(lambda: file.due_at(1 << 60) == [])
    task.cancel()
    assert one.sent == ["r:2"]
    outcomes = file.db.execute("SELECT outcome FROM notices ORDER BY id").fetchall()
    assert outcomes == [("acknowledged by Wang",), ("sent",), ("acknowledged by Li",)]
    file.close()


async def test_a_file_that_cannot_be_read_holds_back_nothing(
    tmp_path: Path, acknowledgements: Acknowledgements
) -> None:
    """Rather told once too often."""
    (tmp_path / "notices").mkdir()
    (tmp_path / "notices" / "acknowledged.db").write_bytes(b"no database" * 1000)
    file = NoticeFile(tmp_path / "n.db", NoticePlan(("sms",), {}, frozenset({"sms"}), 0))
    file.add("r:1", NOW_MS)
    one = ListedNotices("sms")
    delivery = NoticeDelivery(file.notices, one, 1, sqlite3.Error, acknowledgements.who, metrics=NoticeMetrics(CollectorRegistry()))
    task = asyncio.create_task(delivery.run())
    await until(lambda: one.sent == ["r:1"])
    task.cancel()
    file.close()


def test_the_command_says_who_has_it_in_hand(
    tmp_path: Path, acknowledgements: Acknowledgements
) -> None:
    """As an operator types it; no process of the product need run."""
    words = [sys.executable, "-m", "deploy", "--set", f"site.data_dir={tmp_path}", "alarms", "ack"]
    done = subprocess.run([*words, "r:1", "--by", "Wang"], cwd=PROJECT_ROOT, capture_output=True,
                          text=True, timeout=60, check=True)  # fmt: skip
    assert "r:1 is acknowledged by Wang" in done.stdout
    assert acknowledgements.who("r:1") == "Wang"


def test_what_was_acknowledged_before_is_not_among_what_was_since(
    acknowledgements: Acknowledgements,
) -> None:
    """Regression: what is older than the memory of what was published came again every second."""
    assert acknowledgements.since(0) == []
    acknowledgements.add("old", "Wang", NOW_MS)
    acknowledgements.add("new", "Li", NOW_MS + 5)
    assert [one.id for one in acknowledgements.since(0)] == ["old", "new"]
    assert [one.id for one in acknowledgements.since(NOW_MS + 1)] == ["new"]
