"""How a plate is searched for that may have been read otherwise. Pure.

In: a whole plate as a person typed it, how far a reading may be from it; what is stored of plates
(`plate_form`). Out: whether a plate is taken for it, and how such plates begin or end. Never: how
sure a reader was (a rule's matcher knows that of its record); a store's own language.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.fuzzy_plate import USUAL_HIGHEST, WHOLE_PLATE, fuzzy_plate, is_fuzzy, plate_up_to
from bus.domain.misreading_prices import LEAST, UNSAID
from bus.domain.plate_confusion import DROPPED
from bus.domain.plates import UNREAD, readings
from bus.domain.reading_price import reading_price

SearchTolerance = Literal["", "distance 1", "misread"]
SEARCH_TOLERANCES: tuple[SearchTolerance, ...] = ("", "distance 1", "misread")
"""None; one character too few, too many or another; what a reader may have taken the plate for, up
to a price (`reading_price`), for which `~` in front of the plate asks, too."""


class NotOnePlate(ValueError):
    """What is asked for is no whole plate: of a pattern no distance can be told."""

    def __init__(self) -> None:
        super().__init__(f"plate: for this tolerance {WHOLE_PLATE}")


class TolerantPlate(NamedTuple):
    """The plate in its normal form; `highest`: of the price of a reading by the table `confusion`,
    None for distance 1."""

    plate: str
    highest: float | None
    confusion: ConfusionTable = PACKAGED


@lru_cache(maxsize=256)
def tolerant_plate(
    text: str, tolerance: str, confusion: ConfusionTable = PACKAGED
) -> TolerantPlate | None:
    """What is asked for; None for a plate or pattern as it is. Raises `NotOnePlate`."""
    is_marked = is_fuzzy(text)
    if not (is_marked or tolerance):
        return None
    is_priced = is_marked and tolerance != "distance 1"
    found = fuzzy_plate(text) if is_priced else plate_up_to(text, USUAL_HIGHEST)
    if found is None:
        raise NotOnePlate
    highest = None if tolerance == "distance 1" else found.highest
    return TolerantPlate(found.plate, highest, confusion)


def accepts(asked: TolerantPlate, form: str) -> bool:
    """Whether a plate of that form (`plate_form`) is taken for the one that is asked for. At
    distance 1 a character that was not read fits every one; else it has its price."""
    if asked.highest is None:
        return bool(form) and any(_is_near(asked.plate, one) for one in readings(form))
    prices, highest = asked.confusion.prices, asked.highest
    return bool(form) and any(
        reading_price(asked.plate, one, prices, highest, (UNSAID,) * len(one)) is not None
        for one in readings(form)
    )


def ending(asked: TolerantPlate) -> str:
    """The second half of the plate."""
    return asked.plate[_half(asked.plate) :]


@lru_cache(maxsize=256)
def beginnings(asked: TolerantPlate) -> tuple[str, ...]:
    """Each whole plate that is accepted begins with one of these, or ends with `ending`; none is
    the beginning of another. One edit leaves the first half as it is, or the second. Of two edits
    there may be one in each: so the first half is put with each edit that leaves the price of a
    second one; an edit by a character that no table has is not among them."""
    first = asked.plate[: _half(asked.plate)]
    found = {first}
    if asked.highest is not None:
        found.update(_edited(first, asked.highest - LEAST, asked.confusion))
    return tuple(
        one for one in sorted(found)
        if not any(one[:length] in found for length in range(1, len(one)))
    )  # fmt: skip


def _half(plate: str) -> int:
    return (len(plate) + 1) // 2


@lru_cache(maxsize=4)
def _signs(confusion: ConfusionTable) -> tuple[str, ...]:
    """Those that the table knows."""
    rows = confusion.counts.rows
    found = {sign for true, row in rows.items() for sign in (true, *row)}
    return tuple(sorted(found - {UNREAD, DROPPED}))


def _edited(text: str, highest: float, confusion: ConfusionTable) -> Iterator[str]:
    """By one edit inside of it, up to that price."""
    prices = confusion.prices
    for at, true in enumerate(text):
        before, behind = text[:at], text[at + 1 :]
        if prices.deletion(true) <= highest:
            yield f"{before}{behind}"
        for read in _signs(confusion):
            if prices.substitution(true, read, UNSAID) <= highest:
                yield f"{before}{read}{behind}"
            if prices.insertion(read) <= highest:
                yield f"{before}{read}{true}{behind}"


def _is_near(plate: str, read: str) -> bool:
    if len(plate) == len(read):
        return sum(map(_differ, plate, read)) <= 1
    if abs(len(plate) - len(read)) > 1:
        return False
    longer, shorter = (plate, read) if len(plate) > len(read) else (read, plate)
    return any(
        not any(map(_differ, longer[:at] + longer[at + 1 :], shorter))
        for at in range(len(longer))
    )


def _differ(one: str, other: str) -> bool:
    return one != other and UNREAD not in (one, other)
