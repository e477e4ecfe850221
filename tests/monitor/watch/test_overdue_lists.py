"""Lists that were not renewed in their interval: one incident each, from the day until they are."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.plate_lists import ListRecord
from bus.domain.list_in_force import due_ms, is_overdue
from monitor.watch.overdue_lists import MAX_ENDED, OverdueJudge
from tests.monitor.watch.test_judge import BEGIN, JudgedMinutes

DAY_MS = 86_400_000


def record(list_id: str = "stolen", days: int = 7, renewed_at_ms: int = BEGIN) -> ListRecord:
    return ListRecord(
        list_id=list_id, op="put", version=1, name="被盗车辆", owner="traffic police", renewal_days=days,
        renewed_at_ms=renewed_at_ms,
    )  # fmt: skip


def test_it_begins_when_the_interval_is_over_and_ends_when_the_list_was_imported_again() -> None:
    world, lists = JudgedMinutes(), [record(renewed_at_ms=BEGIN - 7 * DAY_MS + 60_000), record("own", 0)]

    def answer() -> None:
        world.judge.on_lists(lists)

    assert world.passes(55, answer) == []
    assert world.passes(20, answer) == ["overdue:stolen:open"]
    [incident] = world.judge.open_incidents()
    assert incident.severity == "warning"
    assert {key: incident.detail[key] for key in ("name", "owner", "renewed", "due")} == {
        "name": "被盗车辆", "owner": "traffic police", "renewed": "2024-12-28 14:14", "due": "2025-01-04 14:14",
    }  # fmt: skip
    assert world.passes(600, answer) == []
    lists[0] = record(renewed_at_ms=world.now_ms)
    assert world.passes(30, answer) == ["overdue:stolen:closed"]


def test_it_ends_when_the_list_does_and_when_it_has_no_interval_any_more() -> None:
    world = JudgedMinutes()
    lists = [record(one, renewed_at_ms=BEGIN - 8 * DAY_MS) for one in ("a", "b")]
    assert world.passes(30, lambda: world.judge.on_lists(lists)) == ["overdue:a:open", "overdue:b:open"]
    assert sorted(world.passes(30, lambda: world.judge.on_lists([record("b", 0)]))) == [
        "overdue:a:closed", "overdue:b:closed",
    ]  # fmt: skip


def test_while_the_lists_cannot_be_read_nothing_begins_or_ends() -> None:
    world = JudgedMinutes()
    world.judge.on_lists([record(renewed_at_ms=BEGIN - 8 * DAY_MS)])
    assert world.passes(5) == ["overdue:stolen:open"]
    assert world.passes(3_600) == []


def test_lists_that_were_ended_while_they_were_overdue_are_not_remembered_for_ever() -> None:
    judge = OverdueJudge(ZoneInfo("UTC"))
    for number in range(3 * MAX_ENDED):
        judge.observe([record(f"l{number}", renewed_at_ms=BEGIN - 8 * DAY_MS)], BEGIN)
    assert len(judge.observe([], BEGIN)) == MAX_ENDED


@given(st.integers(0, 400), st.integers(0, 10**13), st.integers(0, 10**13))
def test_a_list_is_overdue_behind_its_day_and_never_without_an_interval(days: int, renewed: int, now: int) -> None:
    found = record(days=days, renewed_at_ms=renewed)
    assert is_overdue(found, now) is (days > 0 and now > renewed + days * DAY_MS)
    assert not is_overdue(found, due_ms(found))
