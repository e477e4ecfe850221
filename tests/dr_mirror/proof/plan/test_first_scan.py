"""How much is called recent of partitions that the proof sees for the first time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import TopicPartition
from dr_mirror.proof.plan.first_scan import FirstScan, budget_of, recent_from

FIRST_LOOKS = st.lists(
    st.builds(
        lambda start, held, young, size: FirstScan(
            TopicPartition("data.face", 0), start, start + held, start + held - young, size
        ),
        st.integers(0, 10_000), st.integers(0, 100_000), st.integers(0, 100_000),
        st.integers(-1, 50_000_000),
    ),
    max_size=8,
).map(
    lambda scans: [
        FirstScan(TopicPartition("data.face", n), one.start, one.end, one.young_from,
                  one.size_bytes)
        for n, one in enumerate(scans)
    ]
)  # fmt: skip


@given(scans=FIRST_LOOKS, budget=st.floats(0, 1e8))
def test_all_that_is_young_where_it_fits_and_else_the_newest_of_each(scans, budget):
    """Never more than the bound in all, and nothing that is not young."""
    found = recent_from(scans, budget)
    used = 0.0
    for one in scans:
        begin = found[one.partition]
        assert max(one.young_from, one.start) <= begin <= one.end
        used += one.young_bytes * (one.end - begin) / one.young if one.young else 0
    assert used <= budget * 1.000001
    if sum(one.young_bytes for one in scans) <= budget:
        assert all(found[one.partition] == one.end - one.young for one in scans)
    else:
        assert used >= budget - sum(one.young_bytes / max(one.young, 1) for one in scans)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_partitions_that_become_known_one_after_the_other_share_the_bound(parts):
    """No order of the answers lets the first ones take all of it, or all together more."""
    total, left = sum(parts), 1e9
    waiting = total
    for scans in parts:
        waiting -= scans
        budget = budget_of(scans, waiting, left)
        assert budget >= 1e9 * scans / total * 0.999
        left -= budget
    assert -1 <= left <= 1
