"""The file of people's questions: kept before it is answered, so many days, in pages."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.policy import NO_POLICY, PolicySettings
from bus.domain.visibility import EVERYTHING, Viewer
from deploy.paths import PROJECT_ROOT
from monitor.questions.question import (
    Asker,
    PersonQuestion,
    ReasonMissing,
    check_reason,
    question_about,
)
from monitor.questions.question_log import (
    DAY_MS,
    MAX_FORGOTTEN,
    QuestionFilter,
    QuestionLog,
    QuestionsUnavailable,
)

NOW_MS = 1_795_000_000_000
LI = Asker(account="li", reason="stolen", case="K-1")
DIES = """
import os, signal, sys
from pathlib import Path
from monitor.questions.question import Asker, question_about
from monitor.questions.question_log import QuestionLog
log = QuestionLog(Path(sys.argv[1]), 400)
for number in range(3):
    log.add(question_about(Asker(account="li"), "search", {"plate": str(number)}), number)
os.kill(os.getpid(), signal.SIGKILL)
"""


def about(plate: str, asker: Asker = LI) -> PersonQuestion:
    return question_about(asker, "search", {"plate": plate})


@pytest.fixture
def log(tmp_path: Path) -> QuestionLog:
    return QuestionLog(tmp_path, 400)


def plates(log: QuestionLog, **wanted: object) -> list[str]:
    found, _ = log.page(QuestionFilter(**wanted), viewer=EVERYTHING, limit=500)  # type: ignore[arg-type]
    return [one.subject["plate"] for one in found]


def test_a_question_says_who_what_when_and_why(log: QuestionLog) -> None:
    assert log.page(QuestionFilter(), viewer=EVERYTHING, limit=5) == ([], 0)
    log.add(question_about(LI, "trajectory", {"plate": "浙A12345", "from": 7, "until": 0}), NOW_MS)
    [one], following = log.page(QuestionFilter(), viewer=EVERYTHING, limit=5)
    assert (one.account, one.kind, one.subject, one.at_ms) == (
        "li", "trajectory", {"plate": "浙A12345", "from": "7"}, NOW_MS,
    )  # fmt: skip
    assert (one.reason, one.case, one.issuer, following) == ("stolen", "K-1", "console", 0)
    assert log.path.stat().st_mode & 0o077 == 0, "nobody else reads it"


def test_pages_are_newest_first_and_nothing_is_missed_that_was_there(log: QuestionLog) -> None:
    for number in range(7):
        log.add(about(str(number)), NOW_MS + number)
    first, following = log.page(QuestionFilter(), viewer=EVERYTHING, limit=3)
    log.add(about("new"), NOW_MS + 9)
    second, then = log.page(QuestionFilter(), viewer=EVERYTHING, limit=3, before_id=following)
    third, end = log.page(QuestionFilter(), viewer=EVERYTHING, limit=3, before_id=then)
    found = [one.subject["plate"] for one in (*first, *second, *third)]
    assert (found, end) == (list("6543210"), 0)


def test_every_filter_restricts_and_they_may_be_joined(log: QuestionLog) -> None:
    log.add(about("A1"), NOW_MS)
    log.add(about("A2", Asker(account="zhao", reason="x", case="K-2")), NOW_MS + 1)
    log.add(question_about(LI, "evidence", {"plate": "B1"}), NOW_MS + 2)
    assert plates(log, account="zhao") == ["A2"]
    assert plates(log, case="K-1") == ["B1", "A1"]
    assert plates(log, kind="evidence") == ["B1"]
    assert plates(log, text="A") == ["A2", "A1"]
    assert plates(log, from_ms=NOW_MS + 1, until_ms=NOW_MS + 2) == ["A2"]
    assert plates(log, account="li", text="A") == ["A1"]
    assert plates(log, text="' OR 1 --") == []


def test_a_question_is_kept_for_its_days_and_then_goes(log: QuestionLog) -> None:
    log.add(about("old"), NOW_MS - 400 * DAY_MS - 1)
    log.add(about("kept"), NOW_MS - 400 * DAY_MS)
    assert plates(log) == ["kept", "old"]
    log.add(about("new"), NOW_MS)
    assert plates(log) == ["new", "kept"]


def test_what_is_forgotten_at_once_is_bounded(log: QuestionLog) -> None:
    """Nobody's question waits for a year's lines."""
    for _ in range(2):
        log.add(about("x"), 0)
    with closing(sqlite3.connect(log.path)) as db, db:
        db.execute(
            "INSERT INTO questions (at_ms, account, issuer, kind, subject, reason, case_number)"
            " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " SELECT 0, 'a', 'i', 'search', '{}', '', '' FROM n", (2 * MAX_FORGOTTEN,),
        )  # fmt: skip
    log.add(about("new"), NOW_MS)
    with closing(sqlite3.connect(log.path)) as db:
        [(left,)] = db.execute("SELECT count(*) FROM questions").fetchall()
    assert left == 2 + 2 * MAX_FORGOTTEN + 1 - MAX_FORGOTTEN


def test_what_add_returned_from_is_there_after_kill_9(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], cwd=PROJECT_ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert plates(QuestionLog(tmp_path, 400)) == ["2", "1", "0"]


def test_several_ask_at_once_and_each_is_kept(tmp_path: Path) -> None:
    """Console and command line have the file open at the same time, and one of them makes it."""
    logs = [QuestionLog(tmp_path, 400) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: logs[n % 4].add(about(str(n)), NOW_MS + n), range(24)))
    assert sorted(plates(logs[0]), key=int) == [str(n) for n in range(24)]


def test_a_file_that_cannot_be_used_says_so_and_one_of_a_later_version_is_left_alone(
    tmp_path: Path, log: QuestionLog
) -> None:
    log.add(about("x"), NOW_MS)
    with closing(sqlite3.connect(log.path)) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(QuestionsUnavailable, match="later version"):
        log.add(about("y"), NOW_MS)
    log.path.write_bytes(b"no database" * 100)
    with pytest.raises(QuestionsUnavailable, match=r"questions\.db"):
        log.page(QuestionFilter(), viewer=EVERYTHING, limit=1)
    os.unlink(log.path)
    (tmp_path / "questions.db").mkdir()
    with pytest.raises(QuestionsUnavailable):
        log.add(about("y"), NOW_MS)


@given(text=st.text(max_size=40), number=st.integers(0, 10**6))
def test_any_text_is_kept(tmp_path_factory: pytest.TempPathFactory, text: str, number: int) -> None:
    """Halves of characters too, which cannot be stored as they are."""
    log = QuestionLog(tmp_path_factory.mktemp("any"), 400)
    asker = Asker(account=f"a{number}", reason=text, case=text)
    log.add(question_about(asker, "search", {"plate": "p", "text": text}), NOW_MS)
    [one], _ = log.page(QuestionFilter(account=f"a{number}"), viewer=EVERYTHING, limit=2)
    expected = text.encode("utf-8", "replace").decode()
    assert one.reason == expected.strip()
    assert one.subject.get("text", "") == expected


@pytest.mark.parametrize(("asker", "field"), [
    (Asker(account="li"), "reason"), (Asker(account="li", reason=" ", case="K"), "reason"),
    (Asker(account="li", reason="x"), "case"), (LI, ""),
])  # fmt: skip
def test_a_question_that_names_somebody_has_reason_and_case_where_the_site_asks(
    asker: Asker, field: str
) -> None:
    check_reason(about("浙A12345", asker), NO_POLICY)
    check_reason(about("", asker), PolicySettings())
    if not field:
        check_reason(about("浙A12345", asker), PolicySettings())
        return
    with pytest.raises(ReasonMissing) as raised:
        check_reason(about("浙A12345", asker), PolicySettings())
    assert raised.value.field == field


def test_a_longer_reason_than_is_kept_is_refused(log: QuestionLog) -> None:
    with pytest.raises(ReasonMissing, match="at most 500"):
        check_reason(about("A", Asker(account="li", reason="x" * 501, case="K")), NO_POLICY)


def test_an_administrator_of_a_unit_sees_what_that_unit_has_asked(tmp_path: Path) -> None:
    """Who has no unit and runs the platform sees all; a file of before is everybody's of those."""
    log = QuestionLog(tmp_path, 400)
    for unit in ("", "north", "*"):
        log.add(about(f"A{unit}", msgspec.structs.replace(LI, unit=unit)), NOW_MS)
    with closing(sqlite3.connect(log.path)) as db:
        db.executescript("UPDATE questions SET unit = ''; ALTER TABLE questions DROP COLUMN unit; PRAGMA user_version = 1")
    log.add(about("B", msgspec.structs.replace(LI, unit="north")), NOW_MS)

    def seen(viewer: Viewer) -> list[str]:
        return [one.subject["plate"] for one in log.page(QuestionFilter(), viewer=viewer, limit=9)[0]]

    assert seen(EVERYTHING) == ["B", "A*", "Anorth", "A"]
    assert (seen(Viewer("north")), seen(Viewer("south"))) == (["B"], [])
