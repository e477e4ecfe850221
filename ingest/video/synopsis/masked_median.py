"""The street without those who are on it: a median of pictures that leaves out targets. Pure.

In: pictures of a few seconds, and where targets are in each. Out: the background, and which of its
pixels were never free. Never: someone who stood there all the time, as far as it was known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Pictures = Sequence[NDArray[np.uint8]]
Mask = NDArray[np.bool_]

ROWS = 64  # at once: the memory of a median is several times that of what it is of
LEAST_FREE = 3  # samples of a pixel; a median of two may be a shadow


def masked_median(pictures: Pictures, targets: Sequence[Mask]) -> tuple[NDArray[np.uint8], Mask]:
    """`targets`: True where a picture (height x width x 3) shows one. A pixel that was free too
    rarely has the median of all pictures, and is False in the mask."""
    height = pictures[0].shape[0]
    found = np.empty_like(pictures[0])
    known = np.empty(pictures[0].shape[:2], np.bool_)
    for top in range(0, height, ROWS):
        rows = slice(top, top + ROWS)
        values = np.stack([one[rows] for one in pictures]).astype(np.int16)
        covered = np.stack([one[rows] for one in targets])
        free = (~covered).sum(axis=0)
        known[rows] = free >= min(LEAST_FREE, len(pictures))
        values[covered & known[rows]] = 256  # sorted behind all that is free
        count = np.where(known[rows], free, len(pictures))
        values.sort(axis=0)
        middle = ((count - 1) // 2)[None, :, :, None]
        found[rows] = np.take_along_axis(values, middle, axis=0)[0]
    return found, known
