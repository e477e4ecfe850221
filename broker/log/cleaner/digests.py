"""Digests of keys, many at once.

In: a buffer, where keys lie in it. Out: 128 bits for each. Never: an equal digest for two keys that
are not equal, by any chance that matters: it is 2^-128 for each pair, as with Apache Kafka's MD5.

Short keys are hashed together by a multilinear function: the sum of 32-bit words times 64-bit
numbers that are as good as drawn by chance, of which the upper half counts; four such sums. Lemire
and Kaser, "Strongly universal string hashing is fast" (2014), show the chance of each. It holds
while nobody who writes keys knows the numbers: with them a key is easily made that has another's
digest, and the other's record would go. So each pass draws its own. A key longer than
``MAX_TOGETHER`` is hashed by itself.
"""

from __future__ import annotations

import hashlib
from struct import Struct

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from broker.log.cleaner.offset_map import KeyDigests

MAX_TOGETHER = 256
"""Bytes. Beyond that hashing a key by itself costs no more than its share of a sum."""

PADDING = MAX_TOGETHER + 8
"""Bytes that a buffer must have after its last key: keys are read in whole words."""

_LANES = 4
_WORD = 4
_PAIR = Struct("<QQ")

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]

_LAST_WORD = np.array([0xFFFFFFFF, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
"""What of its last word belongs to a key, by its length modulo 4; words are little-endian."""


class KeyHash:
    """The hash of one pass."""

    def __init__(self, seed: bytes) -> None:
        """``seed``: what no client knows."""
        count = _LANES * (2 + MAX_TOGETHER // _WORD)
        drawn = np.frombuffer(hashlib.shake_256(seed).digest(8 * count), "<u8")
        self._numbers = drawn.astype(np.uint64).reshape(_LANES, -1)
        """One row for each lane: for the sum itself, the key's length, each word."""

    def digests(self, buffer: Bytes, starts: Positions, sizes: Positions) -> KeyDigests:
        """The digests of the keys ``buffer[start : start + size]``."""
        high = np.empty(len(starts), np.uint64)
        low = np.empty(len(starts), np.uint64)
        words = np.where(sizes <= MAX_TOGETHER, (sizes + _WORD - 1) // _WORD, -1)
        for count in np.flatnonzero(np.bincount(words + 1)) - 1:
            members = np.flatnonzero(words == count)
            hashed = (
                self._hashed_together(buffer, starts[members], sizes[members], int(count))
                if count >= 0
                else _hashed_singly(buffer, starts[members], sizes[members])
            )
            high[members], low[members] = hashed
        return KeyDigests(high, low)

    def _hashed_together(
        self, buffer: Bytes, starts: Positions, sizes: Positions, count: int
    ) -> KeyDigests:
        """Keys of ``count`` words each."""
        numbers = self._numbers
        sums = numbers[:, 0] + sizes.astype(np.uint64)[:, None] * numbers[:, 1]
        if count:
            words = sliding_window_view(buffer, _WORD * count)[starts].view("<u4")
            words[:, -1] &= _LAST_WORD[sizes % _WORD]
            sums += words.astype(np.uint64) @ numbers[:, 2 : 2 + count].T
        shift = np.uint64(32)
        lanes = sums >> shift
        return KeyDigests(lanes[:, 0] << shift | lanes[:, 1], lanes[:, 2] << shift | lanes[:, 3])


def _hashed_singly(buffer: Bytes, starts: Positions, sizes: Positions) -> KeyDigests:
    hashed = [
        _PAIR.unpack(hashlib.blake2b(buffer.data[start : start + size], digest_size=16).digest())
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]
    pairs = np.array(hashed, np.uint64).reshape(-1, 2)
    return KeyDigests(pairs[:, 0], pairs[:, 1])
