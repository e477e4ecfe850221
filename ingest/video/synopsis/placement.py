"""When each tube begins in the synopsis: greedily, then by annealing. Pure; randomness comes in.

In: the energy of an arrangement, a generator of random numbers. Out: a beginning per tube. Never:
another result of the same numbers.

The largest tube is placed first, each where it costs least, and moved as long as that helps.
Annealing then takes one tube after the other out and draws its place again, the likelier the less
it costs (a heat bath); the best arrangement that was met is improved tube by tube, and counts.
"""

from __future__ import annotations

import numpy as np

from ingest.video.synopsis.energy import LEFT_OUT, Starts, TubeEnergy

HOT, COLD = 8.0, 0.1
"""In frames of a target: differences that are as good as none, at the beginning and at the end."""
MOST_DESCENTS = 10


def arranged(energy: TubeEnergy, sweeps: int, rng: np.random.Generator) -> Starts:
    """The beginnings (frames, or `LEFT_OUT`); `energy` is left in that arrangement."""
    order = sorted(range(len(energy.tubes)), key=lambda n: (-_size(energy, n), n))
    for number in order:
        _place_best(energy, number)
    _descend(energy, order)
    best, best_total = energy.starts.copy(), energy.total()
    for temperature in np.geomspace(HOT, COLD, sweeps) if sweeps else ():
        for number in rng.permutation(len(energy.tubes)):
            _place_drawn(energy, int(number), float(temperature), rng)
        total = energy.total()
        if total < best_total:
            best, best_total = energy.starts.copy(), total
    _restore(energy, best)
    _descend(energy, order)
    return energy.starts.copy()


def _descend(energy: TubeEnergy, order: list[int]) -> None:
    for _ in range(MOST_DESCENTS):
        before = energy.starts.copy()
        for number in order:
            _place_best(energy, number)
        if np.array_equal(before, energy.starts):
            return


def _place_best(energy: TubeEnergy, number: int) -> None:
    energy.place(number, LEFT_OUT)
    costs = energy.costs(number)
    at = int(np.argmin(costs))
    lost = costs[at] > energy.left_out_cost(number)
    energy.place(number, LEFT_OUT if lost else int(energy.possible(number)[at]))


def _place_drawn(
    energy: TubeEnergy, number: int, temperature: float, rng: np.random.Generator
) -> None:
    energy.place(number, LEFT_OUT)
    costs = np.append(energy.costs(number), energy.left_out_cost(number))
    chances = np.exp(-(costs - costs.min()) / temperature)
    at = int(rng.choice(len(costs), p=chances / chances.sum()))
    possible = energy.possible(number)
    energy.place(number, int(possible[at]) if at < len(possible) else LEFT_OUT)


def _restore(energy: TubeEnergy, starts: Starts) -> None:
    for number, start in enumerate(starts):
        energy.place(number, int(start))


def _size(energy: TubeEnergy, number: int) -> float:
    return len(energy.tubes[number]) * energy.tubes[number].area
