"""How much is called recent of partitions that the proof sees for the first time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bus.client.model import TopicPartition
from dr_mirror.proof.plan.first_look import FirstLook, budget_of, recent_from

FIRST_LOOKS = st.lists(
    st.builds(
        lambda start, held, young, size: FirstLook(
            TopicPartition("data.face", 0), start, start + held, start + held - young, size
        ),
        st.integers(0, 10_000), st.integers(0, 100_000), st.integers(0, 100_000),
        st.integers(-1, 50_000_000),
    ),
    max_size=8,
).map(
    lambda looks: [
        FirstLook(TopicPartition("data.face", n), one.start, one.end, one.young_from,
                  one.size_bytes)
        for n, one in enumerate(looks)
    ]
)  # fmt: skip


@given(looks=FIRST_LOOKS, budget=st.floats(0, 1e8))
def test_all_that_is_young_where_it_fits_and_else_the_newest_of_each(looks, budget):
    """Never more than the bound in all, and nothing that is not young."""
    found = recent_from(looks, budget)
    used = 0.0
    for one in looks:
        begin = found[one.partition]
        assert max(one.young_from, one.start) <= begin <= one.end
        used += one.young_bytes * (one.end - begin) / one.young if one.young else 0
    assert used <= budget * 1.000001
    if sum(one.young_bytes for one in looks) <= budget:
        assert all(found[one.partition] == one.end - one.young for one in looks)
    else:
        assert used >= budget - sum(one.young_bytes / max(one.young, 1) for one in looks)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_partitions_that_become_known_one_after_the_other_share_the_bound(parts):
    """No order of the answers lets the first ones take all of it, or all together more."""
    total, left = sum(parts), 1e9
    waiting = total
    for looks in parts:
        waiting -= looks
        budget = budget_of(looks, waiting, left)
        assert budget >= 1e9 * looks / total * 0.999
        left -= budget
    assert -1 <= left <= 1
