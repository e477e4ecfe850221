"""A minute is judged when what was published says that its cells have come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.domain.times import MINUTE_MS
from monitor.models.published_minutes import SETTLE_MS, PublishedMinutes

Published = tuple[int, int]  # minute and moment


def until(*published: Published) -> int:
    made = PublishedMinutes()
    for minute, moment_ms in published:
        made.add(minute * MINUTE_MS, moment_ms)
    return made.until_ms()


def test_a_minute_settles_a_while_after_the_first_cell_of_the_next() -> None:
    """Records under way are no gap."""
    first = (6, 6 * MINUTE_MS + 5_000)
    assert until((5, 5 * MINUTE_MS + 5_000), first) == 5 * MINUTE_MS
    almost = (6, first[1] + SETTLE_MS - 1)
    assert until(first, almost) == 0
    assert until(first, (6, first[1] + SETTLE_MS)) == 6 * MINUTE_MS


def test_an_ingest_that_is_an_hour_late_has_its_minutes_judged_when_they_come() -> None:
    """What broke: a minute was judged by the wall clock, before its cells were there, and never
    again."""
    late_ms = 66 * MINUTE_MS
    assert until((5, late_ms), (6, late_ms + 100)) == 0
    assert until((5, late_ms), (6, late_ms + 100), (6, late_ms + 100 + SETTLE_MS)) == 6 * MINUTE_MS


def test_a_clock_that_is_ahead_settles_nothing_before_its_time() -> None:
    """The minute of a cell is at most that of its publication."""
    now_ms = 5 * MINUTE_MS
    assert until((40_000_000, now_ms), (40_000_000, now_ms + SETTLE_MS)) == now_ms


MOMENTS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40 * MINUTE_MS)), max_size=30)


@given(MOMENTS, st.randoms(use_true_random=False))
def test_the_order_in_which_cells_are_read_changes_nothing(
    published: list[Published], dice: st.DataObject
) -> None:
    """And asking in between neither: a restart finds what the driver before has found."""
    asked = PublishedMinutes()
    for minute, moment_ms in published:
        asked.add(minute * MINUTE_MS, moment_ms)
        asked.until_ms()
    mixed = list(published)
    dice.shuffle(mixed)  # type: ignore[attr-defined]
    assert until(*mixed) == until(*published) == asked.until_ms()
