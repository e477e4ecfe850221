"""The area of a search: as a rule `within (…)` has it, and what is no area."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.expressions import InArea
from bus.domain.polygons import polygon_fault
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from bus.domain.rule_values import normal
from bus.domain.searched_area import (
    MAX_AREA_CHARACTERS,
    MAX_CORNERS,
    AreaFault,
    read_area,
    searched_area,
)
from tests.alarm.rules.made_places import REGISTER
from tests.bus.domain.expressions.trees import CORNERS

PLACES = RegisteredPlaces(REGISTER)
areas = st.lists(st.sampled_from(CORNERS), min_size=3, max_size=5).map(tuple).filter(
    lambda corners: polygon_fault(corners) is None
)  # fmt: skip


@given(areas, st.sampled_from(("c1", "c2", "c3", "and", "gone", "")),
       st.sampled_from(("10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.9", "")))  # fmt: skip
def test_a_search_finds_what_a_rule_for_the_area_would(
    corners: tuple[tuple[float, float], ...], checkpoint: str, device: str
) -> None:
    """Where nothing is known of the place, it is not found."""
    text = ", ".join(f"{east} {north}" for east, north in corners)
    expected = PLACES.find(InArea(corners=corners)).has(normal(checkpoint), normal(device)) is True
    assert searched_area(text, PLACES).has(checkpoint, device) is expected


def test_ids_are_those_that_records_have() -> None:
    """As the register writes them: a store compares no other form."""
    found = searched_area("119.9 29.9, 120.1 29.9, 120.1 30.1, 119.9 30.1, 119.9 29.9", PLACES)
    assert (found.checkpoints, found.hanging) == ({"c1"}, {"10.0.0.1"})
    assert (found.devices, found.elsewhere) == (frozenset(), {"10.0.0.5"})
    assert found.place_count == 2
    assert searched_area(found.text, PLACES) == found
    assert searched_area(found.text, NO_PLACES).place_count == 0


@pytest.mark.parametrize(("text", "words"), [
    ("120 30, 121 30", "3 to 50 corners, not 2"), ("120 30, 121", "'121' is no corner: write longitude"),
    ("120 30, 121 30, a b", "'a b' is no corner"), ("120 30, 121 31, 121 30, 120 31", "crosses or touches itself"),
    ("30 120, 30 121, 31 121", "corner 1: 30 120 is no place"), ("120 30, 120 30, 121 31", "the same corner twice"),
    ("120 30, 121 30, nan 31", "is no place"), ("", "is no corner"), (",,", "is no corner"),
    ("120 30," * 200, "is no corner"), ("1 1, " * 1_000, "more than 50 corners"),
    ("120 30, 121 30, \ud800 1", "is no corner"), ("9" * 400 + " 1, 1 1, 2 2", "is no place"),
])  # fmt: skip
def test_what_is_no_area_is_told_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(AreaFault) as caught:
        read_area(text)
    assert words in str(caught.value)


def test_an_area_may_have_so_many_corners_and_no_more() -> None:
    """All of them fit into an address."""
    def ring(count: int) -> str:
        ends = [f"{120 + n / 1000:.6f} {30.0 + (n % 2) / 1e6:.6f}" for n in range(count - 1)]
        return ", ".join((*ends, "120.010000 31.000000"))

    assert len(read_area(ring(MAX_CORNERS))) == MAX_CORNERS
    assert len(ring(MAX_CORNERS)) < MAX_AREA_CHARACTERS
    with pytest.raises(AreaFault, match="3 to 50 corners, not 51"):
        read_area(ring(MAX_CORNERS + 1))


@given(st.text(max_size=60))
def test_any_text_is_an_area_or_a_fault(text: str) -> None:
    try:
        found = read_area(text)
    except AreaFault:
        return
    assert len(found) >= 3
