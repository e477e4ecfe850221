"""Which face of many a feature resembles most: one product of 32-bit floats per batch, and a 64-bit
score of those that may be it. Pure; whoever imports it loads NumPy.

In: rows and readings of one model. Out: per reading the nearest row and its score, to six decimals.
Never: another answer than scoring each row by itself in 64 bits would give: a row whose rounded
product is within twice the error of the largest is scored again; more than one thread of BLAS in
a process that imports this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bus.contracts.feature_models import Measure

threadpool_limits(limits=1, user_api="blas")
"""Here, because every process that multiplies faces comes by here, whoever starts it and whatever
loaded NumPy before. Drivers, executors and dispatchers share the cores already; a product that
takes all of them makes the others wait."""

Rows: TypeAlias = NDArray[np.float32]
DECIMALS = 6
ROWS_AT_ONCE = 4_096
"""So that the products of a batch stay in the processor's cache."""
EXACT_AT_ONCE = 1_024
_ROUNDING = 2.0**-24


def rows_of(features: Sequence[bytes], dimensions: int, measure: Measure) -> Rows:
    """Features as they are multiplied."""
    joined = b"".join(features)
    rows = np.frombuffer(joined, dtype="<f4").reshape(len(features), dimensions)
    if measure != "cosine":
        return rows.astype(np.float32)
    exact = rows.astype(np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    found: Rows = (exact / lengths).astype(np.float32)
    return found


def squares_of(rows: Rows) -> Rows:
    """The squared length of each row."""
    exact = rows.astype(np.float64)
    found: Rows = (exact * exact).sum(axis=1).astype(np.float32)
    return found


def nearest(
    rows: Rows, squares: Rows, readings: Rows, measure: Measure, excluded: Sequence[int] = ()
) -> list[tuple[int, float] | None]:
    """Of each reading the row that it resembles most, the first of several, and the score. None
    where all rows are excluded, or there is none."""
    found = _may_be_nearest(rows, squares, readings, measure, np.asarray(excluded, dtype=np.intp))
    return [
        _best(rows, places, readings[at], measure) if len(places) else None
        for at, places in enumerate(found)
    ]


def _may_be_nearest(
    rows: Rows, squares: Rows, readings: Rows, measure: Measure, excluded: NDArray[np.intp]
) -> list[NDArray[np.intp]]:
    """Rows, by reading."""
    count = len(readings)
    highest = np.full(count, -np.inf, dtype=np.float32)
    margin = _margin(squares, readings)
    whose: list[NDArray[np.intp]] = []
    places: list[NDArray[np.intp]] = []
    values: list[Rows] = []
    turned = np.ascontiguousarray(readings.T)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        block = rows[begin : begin + ROWS_AT_ONCE]
        products = block @ turned
        if measure == "euclid":
            products *= np.float32(2.0)
            products -= squares[begin : begin + ROWS_AT_ONCE, np.newaxis]
        here = excluded[(excluded >= begin) & (excluded < begin + len(block))] - begin
        products[here] = -np.inf
        highest = np.maximum(highest, products.max(axis=0))
        is_near = (products >= highest - margin) & (products > -np.inf)
        if not is_near.any():
            continue
        row, reading = np.nonzero(is_near)
        places.append(row + begin)
        whose.append(reading)
        values.append(products[row, reading])
    if not places:
        return [np.zeros(0, dtype=np.intp)] * count
    all_places, all_whose = np.concatenate(places), np.concatenate(whose)
    kept = np.concatenate(values) >= (highest - margin)[all_whose]
    all_places, all_whose = all_places[kept], all_whose[kept]
    return [all_places[all_whose == reading] for reading in range(count)]


def _margin(squares: Rows, readings: Rows) -> Rows:
    """Twice the largest error of a product, of each reading."""
    length = float(np.sqrt(squares.max(initial=0.0)))
    own = np.sqrt(squares_of(readings)).astype(np.float64)
    steps = readings.shape[1] + 8
    found: Rows = (4 * steps * _ROUNDING * (length * own + length * length)).astype(np.float32)
    return found


def _best(
    rows: Rows, places: NDArray[np.intp], reading: Rows, measure: Measure
) -> tuple[int, float]:
    found = np.concatenate([
        scores(rows[places[begin : begin + EXACT_AT_ONCE]], reading, measure)
        for begin in range(0, len(places), EXACT_AT_ONCE)
    ])  # fmt: skip
    best = int(found.argmin() if measure == "euclid" else found.argmax())  # the first of several
    return int(places[best]), float(found[best])


def scores(rows: Rows, reading: Rows, measure: Measure) -> NDArray[np.float64]:
    """Of each row by itself, in 64 bits."""
    exact, own = rows.astype(np.float64), reading.astype(np.float64)
    if measure == "euclid":
        found = np.sqrt(((exact - own) ** 2).sum(axis=1))
    else:
        found = (exact * own).sum(axis=1)
    rounded: NDArray[np.float64] = np.round(found, DECIMALS) + 0.0  # no -0.0
    return rounded
