"""Where a condition stands in the index of rules (`matcher`). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class IndexKey(Protocol):
    """A part of a record's attributes by which an index finds rules; it is hashed by its value."""

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """What to look up for a record: its own values."""


Signature = tuple[str | IndexKey, ...]
"""Attributes as they are, and parts of them."""
Values = tuple[object, ...]


class IndexCells(NamedTuple):
    """Where a condition stands in an index: a record that meets it has one of these combinations of
    values in these keys. No key and one empty combination: any record may meet it. No combination:
    none does."""

    signature: Signature
    cells: tuple[Values, ...]
