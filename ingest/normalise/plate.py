"""One plate in one spelling, for matching and for the partition key.

In: the plate as the device wrote it. Out: its key, empty when it does not name a vehicle.
Never: guessing unread characters. Source: Q-0 (spaces, full-width letters, case), GA/T 1400 (`-` =
unread).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from bus.contracts.keys import NO_PLATE, UNREADABLE

# Between the district letter and the number people print a dot; it is no part of the plate.
_SEPARATORS = dict.fromkeys(map(ord, "·•・.‧∙"))
_MASKS = frozenset("*?#_-×")  # characters that stand for an unread or hidden one (after NFKC)
_NO_ANSWERS = frozenset(
    {NO_PLATE, UNREADABLE, "无牌", "无牌车", "未识别", "未知", "UNKNOWN", "NULL", "NONE"}
)
_MAX_CHARACTERS = 16  # GA/T 1400 allows 15; longer text is no plate


@lru_cache(maxsize=65536)
def plate_key(plate: str) -> str:
    """The plate in half-width capitals without spaces; empty when unread, masked, absent or no
    plate at all."""
    key = "".join(unicodedata.normalize("NFKC", plate).upper().split()).translate(_SEPARATORS)
    if key in _NO_ANSWERS or len(key) > _MAX_CHARACTERS or not _MASKS.isdisjoint(key):
        return ""
    return key


def plate_pattern(pattern: str) -> str:
    """A search pattern in the same spelling; `*` stands for any run of characters and is kept."""
    return "*".join(
        "".join(unicodedata.normalize("NFKC", part).upper().split()).translate(_SEPARATORS)
        for part in pattern.replace("＊", "*").split("*")
    )
