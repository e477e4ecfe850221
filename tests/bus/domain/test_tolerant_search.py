"""Which plates a tolerant search takes for the one that is asked for, and where a store finds them."""

from __future__ import annotations

import random

import pytest

from bus.domain.confusion_table import PACKAGED
from bus.domain.look_alikes import is_near
from bus.domain.misreading_prices import UNSAID
from bus.domain.plate_confusion_tables import FIT, HELD_OUT
from bus.domain.plates import PROVINCES
from bus.domain.reading_price import reading_price
from bus.domain.tolerant_search import (
    NotOnePlate,
    TolerantPlate,
    accepts,
    beginnings,
    ending,
    tolerant_plate,
)

LOOKED_FOR = {sign for true, row in FIT.rows.items() for sign in (true, *row)}
SIGNS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


def drawn_plate(dice: random.Random) -> str:
    return dice.choice(PROVINCES) + "".join(dice.choices(SIGNS, k=dice.choice((6, 7))))


def edited(plate: str, dice: random.Random) -> str:
    """By one edit, of which every second one is seen of readers."""
    at = dice.randrange(len(plate))
    before, behind = plate[:at], plate[at + 1 :]
    row = HELD_OUT.rows.get(plate[at])  # what a reader took a character for may have none
    if row and dice.random() < 0.5:
        return before + dice.choices([*row], [*row.values()])[0].strip("-?") + behind
    sign = dice.choice(SIGNS + PROVINCES)
    return dice.choice((before + behind, before + sign + behind, before + sign + plate[at] + behind))


@pytest.mark.parametrize(("text", "tolerance", "meant"), [
    ("浙A12345", "", None), ("*345", "", None), ("浙 a1·2345", "distance 1", ("浙A12345", None)),
    ("浙A12345", "misread", ("浙A12345", 1.0)), ("~浙A12345", "", ("浙A12345", 1.0)),
    ("～0.7：浙A12345", "misread", ("浙A12345", 0.7)),
])  # fmt: skip
def test_what_is_typed_and_chosen_says_one_plate_and_how_far_from_it(
    text: str, tolerance: str, meant: tuple[str, float | None] | None
) -> None:
    assert tolerant_plate(text, tolerance) == (meant and TolerantPlate(*meant))


@pytest.mark.parametrize(("text", "tolerance"), [
    ("*345", "distance 1"), ("浙A1?345", "misread"), ("浙A12", "distance 1"), ("~9:浙A12345", ""),
    ("无车牌", "misread"), ("", "distance 1"), ("~浙A12345", "distance 1"), ("浙A12浙5", "misread"),
])  # fmt: skip
def test_a_distance_is_told_of_one_whole_plate_only(text: str, tolerance: str) -> None:
    with pytest.raises(NotOnePlate, match="a whole plate of at least 6"):
        tolerant_plate(text, tolerance)


@pytest.mark.parametrize("highest", [None, 0.5, 1.0, 2.0])
def test_an_accepted_plate_begins_or_ends_as_a_store_looks_for_it(
    highest: float | None, dice: random.Random
) -> None:
    """Plates with none, one and two edits: judged as lists and rules judge them, and all found but
    those with a character that the table in use has not."""
    found = 0
    for _ in range(3_000):
        plate = read = drawn_plate(dice)
        for _ in range(dice.randrange(3)):
            read = edited(read or plate, dice)
        asked = TolerantPlate(plate, highest)
        price = reading_price(plate, read, PACKAGED.prices, highest or 1, (UNSAID,) * len(read))
        expected = bool(read) and (price is not None if highest else is_near(plate, read))
        assert accepts(asked, read) is expected, (plate, read)
        if expected and set(read) <= LOOKED_FOR:
            found += 1
            begins, ends = read.startswith(beginnings(asked)), read.endswith(ending(asked))
            assert begins or ends, (plate, read)
    assert found > 500


def test_no_place_to_look_lies_in_another_and_they_are_few(dice: random.Random) -> None:
    for highest, most in ((None, 1), (1.0, 250), (2.0, 1_200)):
        places = beginnings(TolerantPlate(drawn_plate(dice), highest))
        assert 1 <= len(places) <= most
        assert not any(a != b and b.startswith(a) for a in places for b in places)


def test_an_unread_character_fits_every_one_at_distance_1_and_has_a_price_else() -> None:
    near, misread = TolerantPlate("浙A12345", None), TolerantPlate("浙A12345", 0.5)
    assert accepts(near, "浙A?2346")
    assert accepts(near, "浙?1234")
    assert accepts(near, "浙A-2345")
    assert not accepts(near, "浙A?2366")
    assert not accepts(near, "")
    assert accepts(misread, "?A12345")
    assert not accepts(misread, "?A1??45")
