"""The numbers of `plate_hash` for many plates at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alarm.lists.plate_hash import FACTOR, MODULUS
from bus.domain.look_alikes import FOLDED_SIGNS
from bus.domain.plates import MAX_PLATE_CHARACTERS

_WEIGHTS = np.array(
    [pow(2, 32 * at, MODULUS) * FACTOR % MODULUS for at in range(MAX_PLATE_CHARACTERS)],
    dtype=np.uint64,
)

Codes = NDArray[np.uint32]
"""A row for each plate: its code points, then zeros."""
Hashes = NDArray[np.uint64]


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
    weights = _WEIGHTS[: codes.shape[1]]
    parts = codes.astype(np.uint64) * weights % MODULUS  # 42 bits each, so that a sum fits
    found: Hashes = parts.sum(axis=1, dtype=np.uint64) % MODULUS
    return found


def hashes_without_one(codes: Codes, place: int) -> Hashes:
    """Of what is left of each without the character at that place, which all of them have."""
    return hashes_of(np.delete(codes, place, axis=1))
