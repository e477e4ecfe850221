"""A small batch is one task, a larger one as many as run at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_apps.batches.batch_tasks import SMALL_BATCH, tasks_for

_places = st.tuples(st.sampled_from(["data.vehicle", "data.face"]), st.integers(0, 5))


@given(st.dictionaries(_places, st.tuples(st.integers(0, 900), st.integers(0, 900))), st.integers(0, 9))
def test_a_batch_has_as_many_tasks_as_there_are_slots_unless_it_is_small(
    lengths: dict[tuple[str, int], tuple[int, int]], slots: int
) -> None:
    """Whatever partitions its records lie on; without a slot yet it waits as one task."""
    offsets = {place: (first, first + count) for place, (first, count) in lengths.items()}
    count = sum(count for _, count in lengths.values())
    assert tasks_for(offsets, slots) == (1 if count <= SMALL_BATCH else max(1, slots))


def test_what_is_just_too_large_is_divided() -> None:
    offsets = {("data.vehicle", 0): (7, 7 + SMALL_BATCH)}
    assert tasks_for(offsets, 8) == 1
    assert tasks_for(offsets | {("data.face", 0): (0, 1)}, 8) == 8
