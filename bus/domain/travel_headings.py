"""What devices and people write of a direction of travel. Pure.

In: a comparable value, or a word. Out: one of eight headings, or None. Never: a guess of what is
only known beside a camera (forward, reverse), nor of a number of degrees.
"""

from __future__ import annotations

from itertools import product
from typing import get_args

from bus.contracts.travel_headings import Heading

HEADINGS: tuple[Heading, ...] = get_args(Heading)
DEGREES_APART = 360 / len(HEADINGS)
MOST_BESIDE = 50.0
"""Degrees between a piece of a road, which is a straight line here, and what a device calls the
direction of its traffic: one that knows four directions is up to 45 beside, and the street that
crosses is 90."""
_CHINESE = ("北", "东北", "东", "东南", "南", "西南", "西", "西北")
_CODES: dict[str, Heading] = {
    "1": "east", "2": "west", "3": "south", "4": "north",
    "5": "north-east", "6": "south-west", "7": "south-east", "8": "north-west",
}  # fmt: skip
"""HDirectionType of GA/T 1400; 9 is another one."""


def _words_of(number: int) -> tuple[str, ...]:
    """In comparable form: `由南向北`, `南到北`, `向北`, `北`, `NORTHBOUND`, `N`."""
    english, to, origin = HEADINGS[number].upper(), _CHINESE[number], _CHINESE[number - 4]
    ways = product(("由", "从", "自", ""), (origin,), "向到往至", (to,))
    whole = map("".join, ways)
    initials = "".join(word[0] for word in english.split("-"))
    joined = english.replace("-", "")
    written = (english, joined, f"{english}BOUND", f"{joined}BOUND", initials)
    return (*written, *whole, to, f"向{to}", f"往{to}", f"{to}行", f"{to}向")


_WORDS: dict[str, Heading] = {
    word: heading for number, heading in enumerate(HEADINGS) for word in _words_of(number)
}
_SAID = _WORDS | _CODES


def heading_of(value: str) -> Heading | None:
    """What a record says, in comparable form (`bus.domain.rule_values.normal`)."""
    return _SAID.get(value)


def named_heading(word: str) -> Heading | None:
    """What a person writes, in comparable form: no code, which is read for another number."""
    return _WORDS.get(word)


def headings_near(bearing: float) -> frozenset[Heading]:
    """What a device may call the direction of a piece of road with this bearing, in degrees."""
    return frozenset(
        heading
        for number, heading in enumerate(HEADINGS)
        if abs((bearing - number * DEGREES_APART + 180) % 360 - 180) <= MOST_BESIDE
    )
