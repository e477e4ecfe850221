"""Where conditions stand in an index. Pure.

An index holds, per signature, the cells of the rules: what a record has in these keys. A form of
condition says its cells; `Matcher` looks a record's own up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple, Protocol

MAX_CELLS = 64  # memory per rule; 10,000 rules stay below a million cells


class IndexKey(Protocol):
    """A part of a record's attributes by which an index finds rules; it is hashed by its value."""

    def of(self, attributes: Mapping[str, str]) -> Iterable[object]:
        """What to look up for a record: its own values."""


class ComparisonKey(IndexKey, Protocol):
    """A key that costs more than a comparison with each of a few texts of rules."""

    def is_near(self, attributes: Mapping[str, str], compared: Iterable[str]) -> bool:
        """False if nothing that `of` says stands in an index of rules with these texts."""


Signature = tuple[str | IndexKey, ...]
"""Attributes as they are, and parts of them."""
Values = tuple[object, ...]


class IndexCells(NamedTuple):
    """Where a condition stands in an index: a record that meets it has one of these combinations of
    values in these keys. No key and one empty combination: any record may meet it. No combination:
    none does. `compared`: texts of the condition, if the only key is a `ComparisonKey`."""

    signature: Signature
    cells: tuple[Values, ...]
    compared: tuple[str, ...] = ()


ANY_RECORD = (IndexCells((), ((),)),)
"""What no index serves."""


def cells_of_values(accepted: Mapping[str, frozenset[str]]) -> IndexCells:
    """By as many attributes as have `MAX_CELLS` combinations, those of few values first."""
    names: list[str] = []
    size = 1
    for name, values in sorted(accepted.items(), key=lambda one: (len(one[1]), one[0])):
        if size * len(values) <= MAX_CELLS or not names:
            names.append(name)
            size *= len(values)
    names.sort()
    cells = product(*(sorted(accepted[name]) for name in names)) if names else ()
    return IndexCells(tuple(names), tuple(cells))


def joined(found: Iterable[IndexCells]) -> tuple[IndexCells, ...]:
    """Those of one signature as one, each cell and each compared text once."""
    cells: dict[Signature, dict[Values, None]] = {}
    compared: dict[Signature, dict[str, None]] = {}
    for signature, own, texts in found:
        cells.setdefault(signature, {}).update(dict.fromkeys(own))
        compared.setdefault(signature, {}).update(dict.fromkeys(texts))
    return tuple(IndexCells(key, tuple(own), tuple(compared[key])) for key, own in cells.items())
