"""A batch is cut by bytes: exactly, in order, within the bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_apps.batches.message import OffsetRanges, ends_of
from spark_apps.batches.slices import bytes_of, slices_of

Place = tuple[str, int]
places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))


@st.composite
def batches(draw: st.DrawFn) -> tuple[OffsetRanges, dict[Place, int]]:
    """Ranges of a batch, none of them empty, and what a record of each has."""
    chosen = draw(st.lists(places, min_size=1, unique=True))
    first, count, size = st.integers(0, 1 << 40), st.integers(1, 60), st.integers(1, 1000)
    ranges = {place: (start := draw(first), start + draw(count)) for place in chosen}
    return ranges, {place: draw(size) for place in chosen}


@given(batches(), st.integers(1, 20_000))
def test_slices_cover_a_batch_exactly_in_order_and_within_the_bound(
    batch: tuple[OffsetRanges, dict[Place, int]], max_bytes: int
) -> None:
    offsets, sizes = batch
    stands = {place: first for place, (first, _) in offsets.items()}
    for one in slices_of(offsets, sizes, max_bytes):
        records = sum(end - first for first, end in one.values())
        assert records > 0
        assert records == 1 or bytes_of(one, sizes) <= max_bytes
        assert all(stands[place] == first < end for place, (first, end) in one.items())
        stands |= ends_of(one)
    assert stands == ends_of(offsets)


@given(batches())
def test_a_batch_that_fits_is_left_alone(batch: tuple[OffsetRanges, dict[Place, int]]) -> None:
    offsets, sizes = batch
    assert slices_of(offsets, sizes, bytes_of(offsets, sizes)) == [offsets]
    assert len(slices_of(offsets, sizes, bytes_of(offsets, sizes) - 1)) != 1 or len(offsets) == 1


def test_every_slice_takes_its_share_of_every_partition() -> None:
    """So that they are read side by side, and none waits for the end of another."""
    offsets = {("a", 0): (0, 100), ("a", 1): (50, 150), ("b", 0): (0, 10)}
    cut = slices_of(offsets, dict.fromkeys(offsets, 10), 420)
    assert [sorted(one) for one in cut[:-1]] == [sorted(offsets)] * (len(cut) - 1)
