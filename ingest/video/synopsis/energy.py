"""What an arrangement of tubes costs: the energy of a video synopsis. Pure.

In: tubes, the length of the synopsis, when each tube begins in it. Out: the energy, and what every
possible beginning of one tube would cost. Never: a choice.

Source: Pritch, Rav-Acha, Peleg, "Nonchronological video synopsis and indexing", TPAMI 2008: the sum
of activity (what is left out), collisions (tubes on one another) and temporal consistency (those
who met, meet again; who came first is first). The unit here is a frame of a target: one target left
out for one frame, or hidden for one frame as a whole, costs 1 before its weight.

Overlaps are counted in cells of the picture, whose edge is a sixty-fourth of its width, and in
steps of time, of which a synopsis has at most 256.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingest.video.synopsis.tubes import Tube

Floats = NDArray[np.float64]
Cells = NDArray[np.float32]
Starts = NDArray[np.int64]

ACTIVITY = 100.0
"""Of a frame left out: dearer than any crowd, so that all targets are shown."""
COLLISION = 1.0
MEETING = 0.3
"""Of a frame by which two who met are moved apart."""
MOST_APART_S = 3.0  # further apart is as bad as that
NEAR_HEIGHTS = 1.5  # nearer than about so many heights two meet
SOON_S = 10.0  # in whose order people take an interest
GRID = 64
STEPS = 256
LEFT_OUT = -1


@dataclass(frozen=True, slots=True)
class _Pairs:
    """What ties one tube to others. `wanted`: by how many frames it begins after the other where
    both are as in the film; `before`: 1 if it came before the other, -1 if after."""

    met: Starts
    wanted: Starts
    nearness: Floats
    ordered: Starts
    before: Starts
    soon: Floats


class TubeEnergy:
    """Invariant: `starts[n]` is where tube n begins in the synopsis (frames), or `LEFT_OUT`; what
    is occupied is the sum of the tubes that are placed."""

    def __init__(
        self, tubes: Sequence[Tube], length: int, size: tuple[int, int], fps: float, order: float
    ) -> None:
        """`size`: width and height of the picture. Raises ValueError where a tube is longer than
        the synopsis."""
        if any(len(tube) > length for tube in tubes):
            raise ValueError("a tube is longer than the synopsis")
        self.tubes, self.length = tubes, length
        self.step = -(-length // STEPS)
        self.starts = np.full(len(tubes), LEFT_OUT, np.int64)
        self._fps, self._order = fps, order
        self._cell = max(1.0, size[0] / GRID)
        self._columns = math.ceil(size[0] / self._cell)
        self._rows = math.ceil(size[1] / self._cell)
        self._occupied = np.zeros((-(-length // self.step), self._rows * self._columns), np.float32)
        self._pairs = [self._pairs_of(number) for number in range(len(tubes))]

    def possible(self, number: int) -> Starts:
        """Where a tube may begin."""
        return np.arange(0, self.length - len(self.tubes[number]) + 1, self.step)

    def place(self, number: int, start: int) -> None:
        """Put a tube there, wherever it was."""
        if self.starts[number] != LEFT_OUT:
            self._occupy(number, -1)
        self.starts[number] = start
        if start != LEFT_OUT:
            self._occupy(number, 1)

    def costs(self, number: int) -> Floats:
        """Of a tube that is left out now: what each possible beginning adds to the energy."""
        return (
            COLLISION * self.collisions(number)
            + self._meeting_costs(number)
            + self._order_costs(number)
        )

    def left_out_cost(self, number: int) -> float:
        """The activity that would not be seen."""
        return ACTIVITY * len(self.tubes[number])

    def collisions(self, number: int) -> Floats:
        """Of a tube that is left out now, by its beginning: frames hidden by, or hiding, others."""
        cells, own = self._own_cells(number)
        possible = self.possible(number)
        if not cells.size:
            return np.zeros(len(possible))
        both = self._occupied[:, cells] @ own.T
        found = np.zeros(len(possible))
        for row in range(own.shape[0]):
            found += both[row : row + len(possible), row]
        return found * self._cell**2 / self.tubes[number].area * self.step

    def total(self) -> float:
        """The energy of the arrangement; it changes nothing."""
        return sum(
            self.left_out_cost(number) if at is None else float(self.costs(number)[at])
            for number, at in self._placed_again()
        )

    def collided(self) -> float:
        """Frames of targets that are hidden by others or hide them; each pair counts once. It
        changes nothing."""
        return sum(
            float(self.collisions(number)[at])
            for number, at in self._placed_again() if at is not None
        )  # fmt: skip

    def _placed_again(self) -> Iterator[tuple[int, int | None]]:
        """One tube after the other, before it is put where it was; which of its possible beginnings
        that is, None where it is left out."""
        starts = self.starts.copy()
        for number in range(len(self.tubes)):
            self.place(number, LEFT_OUT)
        self._occupied[:] = 0
        for number, start in enumerate(starts):
            if start == LEFT_OUT:
                yield number, None
                continue
            yield number, int(np.searchsorted(self.possible(number), start))
            self.place(number, int(start))

    def _occupy(self, number: int, sign: int) -> None:
        cells, own = self._own_cells(number)
        begin = int(self.starts[number]) // self.step
        self._occupied[begin : begin + own.shape[0], cells] += sign * own

    def _own_cells(self, number: int) -> tuple[Starts, Cells]:
        """The cells that a tube touches, and how much of each it covers, step by step."""
        boxes = self.tubes[number].boxes[:: self.step]
        across = _covered(boxes[:, 0], boxes[:, 2], self._columns, self._cell)
        down = _covered(boxes[:, 1], boxes[:, 3], self._rows, self._cell)
        xs, ys = np.flatnonzero(across.any(axis=0)), np.flatnonzero(down.any(axis=0))
        own = down[:, ys, None] * across[:, None, xs]
        cells = (ys[:, None] * self._columns + xs[None, :]).ravel()
        return cells, own.reshape(len(boxes), -1)

    def _meeting_costs(self, number: int) -> Floats:
        pairs, possible = self._pairs[number], self.possible(number)
        others = self.starts[pairs.met]
        placed = others != LEFT_OUT
        wanted = others[placed] + pairs.wanted[placed]
        apart = np.abs(possible[:, None] - wanted[None, :])
        capped = np.minimum(apart, MOST_APART_S * self._fps)
        costs: Floats = MEETING * capped @ pairs.nearness[placed]
        return costs

    def _order_costs(self, number: int) -> Floats:
        """A second of the synopsis for each neighbour in time that comes in the wrong order."""
        pairs, possible = self._pairs[number], self.possible(number)
        others = self.starts[pairs.ordered]
        placed = others != LEFT_OUT
        wrong = (possible[:, None] - others[placed]) * pairs.before[placed] > 0
        costs: Floats = self._order * self._fps * wrong @ pairs.soon[placed]
        return costs

    def _pairs_of(self, number: int) -> _Pairs:
        own = self.tubes[number]
        met, wanted, nearness, ordered, before, soon = [], [], [], [], [], []
        for other, tube in enumerate(self.tubes):
            if other == number:
                continue
            common, at_own, at_other = np.intersect1d(
                own.frames, tube.frames, assume_unique=True, return_indices=True
            )
            if len(common):
                near = _nearness(own.boxes[at_own], tube.boxes[at_other])
                if near > 0.05:
                    met.append(other)
                    wanted.append(int(at_other[0]) - int(at_own[0]))
                    nearness.append(near)
                continue
            gap = max(own.first - tube.last, tube.first - own.last) / self._fps
            if gap <= 4 * SOON_S:
                ordered.append(other)
                before.append(1 if own.first < tube.first else -1)
                soon.append(math.exp(-max(0.0, gap) / SOON_S))
        return _Pairs(
            np.array(met, np.int64), np.array(wanted, np.int64), np.array(nearness, np.float64),
            np.array(ordered, np.int64), np.array(before, np.int64), np.array(soon, np.float64),
        )  # fmt: skip


def _nearness(own: Floats, other: Floats) -> float:
    """1 of two who touch, towards 0 of those who are some heights apart."""
    apart = np.hypot(
        own[:, 0] + own[:, 2] / 2 - other[:, 0] - other[:, 2] / 2,
        own[:, 1] + own[:, 3] - other[:, 1] - other[:, 3],
    ) / np.minimum(own[:, 3], other[:, 3])
    return math.exp(-max(0.0, float(apart.min()) - 0.5) / NEAR_HEIGHTS * 2)


def _covered(begins: Floats, lengths: Floats, count: int, cell: float) -> Cells:
    """Per box and cell of one axis: the share of the cell that the box covers."""
    edges = np.arange(count) * cell
    ends = np.minimum(edges[None, :] + cell, (begins + lengths)[:, None])
    covered: Cells = (ends - np.maximum(edges[None, :], begins[:, None])).clip(0) / np.float64(cell)
    return covered.astype(np.float32)
