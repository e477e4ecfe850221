"""Cuts of a former primary's logs: what is written is read, and only what is done counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.mirror_truncations import (
    MAX_EPOCHS,
    LogTruncation,
    TopicTruncations,
    all_done,
    first_truncation,
    parse_truncations,
    truncations_text,
    with_truncation,
)

NUMBERS = st.integers(0, 10**17)
PARTITIONS = st.dictionaries(st.integers(0, 2000), st.builds(LogTruncation, NUMBERS, NUMBERS), min_size=1, max_size=6)
CUTS = st.dictionaries(NUMBERS, st.tuples(PARTITIONS, st.booleans()), max_size=5).map(
    lambda found: tuple(TopicTruncations(epoch, *found[epoch]) for epoch in sorted(found))
)


@given(CUTS)
def test_what_is_written_is_read(cuts: tuple[TopicTruncations, ...]):
    assert parse_truncations(truncations_text(cuts)) == cuts


@given(st.one_of(st.text(max_size=60), st.text(alphabet="0123456789:=-,;~", max_size=60)))
def test_any_text_is_read_or_refused(text: str):
    try:
        cuts = parse_truncations(text)
    except ValueError:
        return
    assert parse_truncations(truncations_text(cuts)) == cuts


@pytest.mark.parametrize("text", ["7:", "7:0=1", "7:0=1-2,", "7:00=1-2", "8:0=1-2;7:0=1-2", "7:0=1-2;7:0=1-2"])
def test_what_is_no_cut_is_refused(text: str):
    with pytest.raises(ValueError, match=r"mirror\.cuts"):
        parse_truncations(text)


def test_a_command_that_is_repeated_keeps_what_it_said_first():
    """The second time the log ends at its cut, or another partition's is looked at."""
    once = with_truncation((), 7, {0: LogTruncation(10, 30)})
    again = with_truncation(once, 7, {0: LogTruncation(10, 10), 1: LogTruncation(5, 6)})
    assert again == (TopicTruncations(7, {0: LogTruncation(10, 30), 1: LogTruncation(5, 6)}, is_done=False),)


def test_nobody_goes_back_before_all_is_cut_and_then_to_the_lowest_cut_since():
    cuts = with_truncation(all_done(with_truncation((), 7, {0: LogTruncation(10, 30)})), 9, {0: LogTruncation(20, 40)})
    assert first_truncation(cuts, 0, 7) is None
    cuts = all_done(cuts)
    assert first_truncation(cuts, 0, -1) == LogTruncation(10, 40)
    assert first_truncation(cuts, 0, 7) == LogTruncation(20, 40)
    assert first_truncation(cuts, 0, 9) is None
    assert first_truncation(cuts, 1, -1) is None


def test_the_key_is_bounded():
    cuts: tuple[TopicTruncations, ...] = ()
    for epoch in range(3 * MAX_EPOCHS):
        cuts = with_truncation(cuts, epoch, {0: LogTruncation(1, 2)})
    assert [each.epoch for each in cuts] == list(range(2 * MAX_EPOCHS, 3 * MAX_EPOCHS))
