"""Notices of incidents that the file refuses: the same plan, once each, and what was done is kept."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.alarms import Incident
from bus.notify.memory_notices import MemoryNotices
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import SENT, after_attempt

PLAN = NoticePlan(("log", "sms"), {}, frozenset({"sms"}), 60_000)


def incident(name: str, state: str = "open") -> Incident:
    closed_ms = 9 if state == "closed" else 0
    return Incident(incident_id=name, kind="away", state=state, opened_at_ms=1,  # type: ignore[arg-type]
                    closed_at_ms=closed_ms)  # fmt: skip


def subjects(notices: MemoryNotices, notifier: str, now_ms: int) -> list[str]:
    return [one.subject for one in notices.due(notifier, now_ms, 100)]


def test_escalation_waits_and_is_withdrawn_by_the_end() -> None:
    notices = MemoryNotices(PLAN)
    notices.add(incident("a"), b"{}", 0)
    assert (subjects(notices, "log", 0), subjects(notices, "sms", 0)) == (["a:open"], [])
    assert subjects(notices, "sms", 60_000) == ["a:open"]
    notices.add(incident("a", "closed"), b"{}", 1)
    assert (subjects(notices, "log", 60_000), subjects(notices, "sms", 60_000)) == (
        ["a:open", "a:closed"], [],
    )  # fmt: skip


def test_whom_an_escalation_has_reached_learns_of_the_end() -> None:
    notices = MemoryNotices(PLAN)
    notices.add(incident("a"), b"{}", 0)
    (escalated,) = notices.due("sms", 60_000, 10)
    assert notices.settle(after_attempt(escalated, 0, SENT))
    notices.add(incident("a", "closed"), b"{}", 60_000)
    assert subjects(notices, "sms", 60_000) == ["a:closed"]


def test_a_result_that_came_while_the_file_was_written_stays_for_the_next_write() -> None:
    """Else the file would send it again."""
    notices = MemoryNotices(PLAN)
    notices.add(incident("a"), b"{}", 0)
    written = notices.results()
    (notice,) = notices.due("log", 0, 10)
    notices.settle(after_attempt(notice, 0, SENT))
    notices.forget(written)
    assert [(one.notice.notifier, one.outcome) for one in notices.results()] == [("log", SENT)]
    notices.forget(notices.results())
    assert not notices
    assert not notices.settle(after_attempt(notice, 0, SENT))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans())))
def test_no_notice_is_due_that_was_sent_however_often_its_incident_is_added(
    steps: list[tuple[str, bool, bool]],
) -> None:
    """The keeper adds what waits at every attempt to write."""
    notices, sent = MemoryNotices(replace(PLAN, notifiers=("log",))), set()
    for name, is_end, is_sent in steps:
        notices.add(incident(name, "closed" if is_end else "open"), b"{}", 0)
        for notice in notices.due("log", 0, 100):
            assert notice.subject not in sent
            if is_sent:
                notices.settle(after_attempt(notice, 0, SENT))
                sent.add(notice.subject)
