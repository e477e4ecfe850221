"""Positions of a store go back to where their log was cut, once for each site epoch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.mirror_truncations import (
    LogTruncation,
    TopicTruncations,
    all_done,
    with_truncation,
)
from ingest.store.positions import epoch_marks, set_back
from tests.ingest.store.made import position

TOPIC = "data.vehicle"
MARKS = epoch_marks("ingest")


def cuts(*made: tuple[int, int, int]) -> dict[str, tuple[TopicTruncations, ...]]:
    found: tuple[TopicTruncations, ...] = ()
    for epoch, cut, end in made:
        found = all_done(with_truncation(found, epoch, {0: LogTruncation(cut, end)}))
    return {TOPIC: found}


def test_a_position_behind_a_cut_goes_back_to_it_and_one_before_stays():
    [(behind, mark, _)] = set_back([position(20)], [], cuts((7, 10, 30)))
    assert (behind.end_offset, mark.application, mark.end_offset) == (10, MARKS, 7)
    [(before, mark, _)] = set_back([position(5)], [], cuts((7, 10, 30)))
    assert (before.end_offset, mark.end_offset) == (5, 7)


def test_a_cut_counts_once_and_one_that_is_not_made_yet_not_at_all():
    seen = [position(7, application=MARKS)]
    assert set_back([position(20)], seen, cuts((7, 10, 30))) == []
    assert set_back([position(20)], [], {TOPIC: with_truncation((), 7, {0: LogTruncation(10, 30)})}) == []


def test_a_store_that_slept_over_two_cuts_goes_back_to_the_lower_one():
    [(back, mark, cut)] = set_back([position(50)], [], cuts((7, 10, 30), (9, 20, 60)))
    assert (back.end_offset, mark.end_offset, cut) == (10, 9, LogTruncation(10, 60))


def test_each_application_goes_back_for_itself():
    """Regression: a store of an earlier version has the counters of two."""
    other = position(20, application="quality")
    [(_, mark, _)] = set_back([position(20)], [], cuts((7, 10, 30)))
    [(back, other_mark, _)] = set_back([other], [], cuts((7, 10, 30)))
    assert back.end_offset == 10
    assert other_mark.application != mark.application


@given(
    st.integers(0, 100),
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 100), st.integers(0, 100)), max_size=5),
    st.integers(-1, 9),
)
def test_no_position_ever_goes_forward_and_the_second_time_nothing_changes(
    end: int, made: list[tuple[int, int, int]], seen_epoch: int
):
    said = cuts(*made)
    seen = [] if seen_epoch < 0 else [position(seen_epoch, application=MARKS)]
    for back, mark, _ in set_back([position(end)], seen, said):
        assert back.end_offset <= end
        assert set_back([back], [mark], said) == []
