"""What waits in a file that was restored is marked, and more than twenty are one digest."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bus.contracts.alarms import Incident, NoticeDigest
from bus.notify.notice_digest import MOST_SINGLE, RepeatedNotice, digest_of
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import DIGEST, SENT, after_attempt, mark_repeated
from tests.bus.notify.notice_file import NoticeFile


def incident(number: int, severity: str = "warning") -> Incident:
    return Incident(
        incident_id=f"i-{number}", kind="away", state="open", opened_at_ms=number, severity=severity
    )


@pytest.mark.parametrize("count", [0, 1, MOST_SINGLE, MOST_SINGLE + 1, 150])
def test_waiting_notices_are_sent_once_and_marked_or_in_one_digest(
    tmp_path: Path, count: int
) -> None:
    """What was sent stays as it is; what becomes of a digest becomes of all in it."""
    with closing(NoticeFile(tmp_path / "notices.db", NoticePlan(("log", "mail")))) as file:
        for number in range(count):
            file.add(f"i-{number}:open", number, body=msgspec.json.encode(incident(number)))
        for notice in file.notices.due("log", 1 << 50, 1000):
            file.notices.record(after_attempt(notice, 0, SENT))
        with file.transaction() as db:
            assert mark_repeated(db, 777) == count
        assert file.notices.due("log", 1 << 50, 1000) == []
        waiting = file.notices.due("mail", 1 << 50, 1000)
        if count <= MOST_SINGLE:
            bodies = [msgspec.json.decode(one.body, type=Incident) for one in waiting]
            assert [one.incident_id for one in bodies] == [f"i-{n}" for n in range(count)]
            assert all(one.perhaps_sent_before for one in bodies)
            return
        [notice] = waiting
        digest = msgspec.json.decode(notice.body, type=NoticeDigest)
        assert notice.subject == digest.digest_id == f"{DIGEST}777"
        assert (digest.incidents, digest.alarms) == (count, 0)
        file.notices.record(after_attempt(notice, 0, SENT))
        rows = file.db.execute(
            "SELECT outcome, count(*) FROM notices WHERE notifier = 'mail' GROUP BY 1"
        )
        assert dict(rows.fetchall()) == {SENT: 1, f"sent in {DIGEST}777": count}


def test_a_digest_counts_all_and_has_the_highest_severity(dice: random.Random) -> None:
    found = [incident(dice.randrange(10**6), dice.choice(["info", "warning"])) for _ in range(300)]
    found.append(incident(5, "critical"))
    digest = digest_of("digest:1", [RepeatedNotice(one.incident_id, one) for one in found])
    assert (digest.severity, digest.incidents) == ("critical", 301)
    assert (digest.first_at_ms, digest.last_at_ms) == (
        min(one.opened_at_ms for one in found), max(one.opened_at_ms for one in found)
    )  # fmt: skip
    assert len(digest.ids) == 100
