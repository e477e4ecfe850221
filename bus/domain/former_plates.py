"""How plates were brought into one form before ADR 0076, for stores that hold such rows. Pure.

In: a plate as it was written. Out: the key under which an earlier version of this program stored
it. Never: for anything that is stored now.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from bus.domain.plates import MARKS, MAX_PLATE_CHARACTERS, NO_PLATE_WORDS

_SEPARATORS = dict.fromkeys(map(ord, "·•・.‧∙"))


@lru_cache(maxsize=256)
def former_key(plate: str) -> str:
    """The key of then: only spaces and dots were left out, and every hyphen was a mark."""
    text = "".join(unicodedata.normalize("NFKC", plate).upper().split()).translate(_SEPARATORS)
    is_none = text in NO_PLATE_WORDS or len(text) > MAX_PLATE_CHARACTERS
    return "" if is_none or not set(MARKS).isdisjoint(text) else text
