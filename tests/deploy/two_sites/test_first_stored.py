"""From the last acknowledgement at A: when that was is told by how its ends grew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deploy.two_sites.first_stored import last_growth_ms

FACE, CAR = ("data.face", 0), ("data.vehicle", 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6),
)
def test_the_last_growth_of_its_own_counts_not_what_comes_from_the_new_primary(
    own: list[tuple[int, int]], copied: list[tuple[int, int]]
):
    """Behind the ends of a planned switch lie copies of what B took."""
    face = car = 0
    seen = []
    expected: int | None = None
    for number, (faces, cars) in enumerate([(0, 0), *own, *copied]):
        if number == len(own) + 1:
            ends = {FACE: face, CAR: car}
        face, car = face + faces, car + cars
        seen.append((1_000 + number, {FACE: face, CAR: car}))
        if number and number <= len(own) and (faces or cars):
            expected = 1_000 + number
    if not copied:
        ends = {FACE: face, CAR: car}
    assert last_growth_ms(seen, ends) == expected
    assert last_growth_ms(seen[:1], ends) is None
