"""Which drivers are away: by their pages, in whatever arrangement they run, unless one supervises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.roles.stages import STAGES, stages_of
from deploy.roles.watch_ports import DISPATCHER, RECORDER
from deploy.settings.composed import load
from monitor.watch.driver_pages import DriverPages

STALE_MS = 30_000
ALONE = [f"streams-{name}" for name in ("ingest", "watchlist", "meters")]
NO = "refused"


def judged(answers: dict[str, str], supervised: set[str] = frozenset()) -> dict[str, str]:  # type: ignore[assignment]
    """Faults after these answers, of those that are away or known to be well."""
    pages = DriverPages.of([*STAGES, DISPATCHER, RECORDER], STALE_MS)
    for name, fault in answers.items():
        pages.answered(name, fault, 0)
    return pages.faults(supervised, 0)


@pytest.mark.parametrize(
    ("answers", "away"),
    [
        ({"streams": "", **dict.fromkeys(ALONE, NO)}, set()),
        ({"streams": NO, **dict.fromkeys(ALONE, "")}, set()),
        ({"streams": NO, **dict.fromkeys(ALONE, ""), "streams-ingest": NO}, {"streams-ingest"}),
        ({"streams": NO, **dict.fromkeys(ALONE, NO)}, {"streams"}),
        ({"dispatcher": NO, "streams": ""}, {"dispatcher"}),
        (dict.fromkeys(ALONE, NO), set(ALONE)),  # `health` has no address for a driver of all
    ],
    ids=["one for all", "one each", "one of them dead", "all dead", "dispatcher", "only alone"],
)
def test_the_driver_that_is_there_is_found_and_the_one_that_is_missing_named(
    answers: dict[str, str], away: set[str]
) -> None:
    assert {name for name, fault in judged(answers).items() if fault} == away


def test_two_drivers_are_judged_each_by_its_own_page() -> None:
    """The watch list alone, and the rest in one."""
    settings = load(flags=["streams.drivers=2"], environment={})
    pages = DriverPages.of(stages_of(settings.streams), STALE_MS)
    pages.answered("streams", "", 0)
    pages.answered("streams-watchlist", NO, 0)
    found = pages.faults((), 0)
    assert (found["streams"], found["streams-watchlist"]) == ("", NO)


def test_nothing_is_said_of_a_process_with_a_supervisor_or_by_an_old_answer() -> None:
    """Its supervisor knows better: a page that has no free port is no death."""
    assert judged({"streams": NO}, {"streams"}) == {}
    assert judged({"streams-ingest": NO, "streams": NO}, {"streams-ingest"}) == {}
    pages = DriverPages.of(STAGES, STALE_MS)
    pages.answered("streams", NO, 0)
    assert pages.faults((), STALE_MS + 1) == {}


@given(
    st.dictionaries(st.sampled_from(["streams", "dispatcher", *ALONE]), st.sampled_from(["", NO]))
)
def test_no_process_is_away_whose_page_has_answered(answers: dict[str, str]) -> None:
    """And none is, of which nothing was heard."""
    for name, fault in judged(answers).items():
        assert not (fault and answers.get(name) == "")
        assert not fault or name in answers
