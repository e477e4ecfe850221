"""One number for a plate, the same when it is computed alone and for a million at once. Pure.

In: texts of at most `MAX_PLATE_CHARACTERS`. Out: numbers below `MODULUS`. Never: a promise that two
plates have two numbers: what is found by one is compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bus.domain.look_alikes import FOLDED_SIGNS
from bus.domain.plates import MAX_PLATE_CHARACTERS

BITS = 42
MODULUS = 4_363_686_785_077
"""A prime below 2 ** BITS: a code point (21 bits) times a smaller number stays below 2 ** 63."""
_FACTOR = 2_718_281_828_459
"""Spreads the first characters over all bits as well."""
_WEIGHTS = np.array(
    [pow(2, 32 * at, MODULUS) * _FACTOR % MODULUS for at in range(MAX_PLATE_CHARACTERS)],
    dtype=np.uint64,
)

Codes = NDArray[np.uint32]
"""A row for each plate: its code points, then zeros."""
Hashes = NDArray[np.uint64]


def hash_of(text: str) -> int:
    """Of one text."""
    return int.from_bytes(text.encode("utf-32-le"), "little") * _FACTOR % MODULUS


def codes_of(plates: Sequence[str]) -> Codes:
    """Of plates that have at most `MAX_PLATE_CHARACTERS`."""
    texts = np.array(plates, dtype=f"U{MAX_PLATE_CHARACTERS}")
    return texts.view(np.uint32).reshape(len(plates), MAX_PLATE_CHARACTERS)


def folded_codes(codes: Codes) -> Codes:
    """With one character for each group of look-alikes."""
    table = np.arange(128, dtype=np.uint32)
    for sign, first in FOLDED_SIGNS.items():
        table[sign] = first
    return np.where(codes < len(table), table[np.minimum(codes, len(table) - 1)], codes)


def hashes_of(codes: Codes) -> Hashes:
    """The same numbers as `hash_of`."""
    return _parts(codes).sum(axis=1, dtype=np.uint64) % MODULUS


def hashes_without_one(codes: Codes, place: int) -> Hashes:
    """Of what is left of each without the character at that place, which all of them have."""
    return hashes_of(np.delete(codes, place, axis=1))


def _parts(codes: Codes) -> Hashes:
    """Each below 2 ** BITS, so that a sum of them fits."""
    weights = _WEIGHTS[: codes.shape[1]]
    return codes.astype(np.uint64) * weights % MODULUS
