"""Values as rules compare them.

In: what devices and operators write. Out: one form per value. Never: I/O.
Spaces, full-width letters and case do not matter (Q-0: the book prints `浙 AWL999` once), nor does
the dot that people print in plates. A value that says "not read" is no value, nor is a masked
plate. A plate's form is that of the store and the partition key: `bus.domain.plates`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache

from bus.contracts.keys import NO_PLATE, UNREADABLE
from bus.domain.kinds import WIRE_KEYS
from bus.domain.plates import plate_key

PLATE = "plate_number"

_NOT_READ = frozenset({"", UNREADABLE, NO_PLATE})


@lru_cache(maxsize=65_536)  # plates repeat all day, features take few values
def normal(value: str) -> str:
    """The form in which values are compared; empty when the value says that nothing was read."""
    folded = "".join(unicodedata.normalize("NFKC", value).split()).upper()
    return "" if folded in _NOT_READ else folded


def normal_as(attribute: str, value: str) -> str:
    """The comparable form of the value of one attribute."""
    return plate_key(value) if attribute == PLATE else normal(value)


def attributes_of(kind: str, message: Mapping[str, object]) -> dict[str, str]:
    """The comparable attributes of a record: English name -> value, only those that were read."""
    keys = WIRE_KEYS.get(kind, {})
    return attributes_from((name, message.get(key)) for name, key in keys.items())


def attributes_from(values: Iterable[tuple[str, object]]) -> dict[str, str]:
    """The comparable ones of some (English name, value as the device wrote it)."""
    found = {}
    for name, raw in values:
        if not isinstance(raw, str):
            if not isinstance(raw, int | float) or isinstance(raw, bool):
                continue
            raw = str(raw)
        value = normal_as(name, raw)
        if value:
            found[name] = value
    return found
