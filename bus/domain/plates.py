"""Plates: one spelling and one vocabulary, for rules, store, search and partition key alike.

In: a plate as a device or an operator wrote it. Out: its key, empty when it names no vehicle.
Never: guessing unread characters. Source: Q-0 (spaces, full-width letters, case), GA/T 1400 (`-` =
unread).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from bus.contracts.keys import NO_PLATE, UNREADABLE

# What devices write where a vehicle has no plate or none was read, in the spelling of `folded`.
NO_PLATE_WORDS = frozenset(
    {NO_PLATE, UNREADABLE, "", "无牌", "无牌车", "未识别", "未知", "UNKNOWN", "NULL", "NONE"}
)
# Between the district letter and the number people print a dot; it is no part of the plate.
_SEPARATORS = dict.fromkeys(map(ord, "·•・.‧∙"))
_MASKS = frozenset("*?#_-×")  # characters that stand for an unread or hidden one (after NFKC)
_MAX_CHARACTERS = 16  # GA/T 1400 allows 15; longer text is no plate


def folded(plate: str) -> str:
    """Half-width capitals without spaces and separators."""
    text = "".join(unicodedata.normalize("NFKC", plate).upper().split())
    return text.translate(_SEPARATORS)


def says_no_plate(plate: str) -> bool:
    """Whether the text is an answer ("there is none", "not read") and no plate."""
    return folded(plate) in NO_PLATE_WORDS


@lru_cache(maxsize=65536)  # plates repeat all day
def plate_key(plate: str) -> str:
    """The plate in its one spelling; empty when unread, masked, absent or no plate at all."""
    key = folded(plate)
    if key in NO_PLATE_WORDS or len(key) > _MAX_CHARACTERS or not _MASKS.isdisjoint(key):
        return ""
    return key


def plate_pattern(pattern: str) -> str:
    """A search pattern in the same spelling; `*` stands for any run of characters and is kept."""
    return "*".join(folded(part) for part in pattern.replace("＊", "*").split("*"))
