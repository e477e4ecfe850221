"""Further plates that a reader holds possible beside the one that it wrote (`车牌候选`). Pure.

In: what a device wrote: a list of objects `{"车牌号码": "浙A8D345", "权重": 30}`, weights to 1 or
to 100. Out: plates in their normal form, each with its weight. Never: more than `MOST_CANDIDATES`;
a plate of which a character is missing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from bus.domain.plates import plate_key

PLATE_KEY, WEIGHT_KEY = "车牌号码", "权重"
MOST_CANDIDATES = 5
"""Each is looked up as often as the reading itself; readers that say more say little by it."""
_FULL_WEIGHT = 100.0
_BETWEEN, _BEHIND = ",", " "


class PlateCandidate(NamedTuple):
    """`weight`: how sure the reader is that it is this plate, above 0, at most 1."""

    plate: str
    weight: float


class CandidatesRead(NamedTuple):
    """Those that are understood, in the order in which they stand there, and how many are not."""

    candidates: tuple[PlateCandidate, ...]
    ignored: int


def read_candidates(written: object) -> CandidatesRead:
    """What a device wrote. Anything but a list has nothing that could be ignored."""
    if not isinstance(written, list):
        return CandidatesRead((), 0)
    pairs = [pair for pair in map(_pair, written[:MOST_CANDIDATES]) if pair]
    scale = _FULL_WEIGHT if any(weight > 1 for _, weight in pairs) else 1.0
    weights: dict[str, float] = {}
    for plate, weight in pairs:
        if weight <= scale:
            weights.setdefault(plate, weight / scale)
    found = tuple(PlateCandidate(plate, weight) for plate, weight in weights.items())
    return CandidatesRead(found, len(written) - len(found))


def _pair(written: object) -> tuple[str, float] | None:
    if not isinstance(written, dict):
        return None
    plate, weight = written.get(PLATE_KEY), written.get(WEIGHT_KEY)
    if not isinstance(plate, str) or isinstance(weight, bool):
        return None
    if not isinstance(weight, int | float) or not 0 < weight <= _FULL_WEIGHT:
        return None
    key = plate_key(plate)
    return (key, float(weight)) if key else None


def candidates_text(written: object) -> str:
    """As an attribute of a record: `浙A8D345 0.3,浙A8O345 0.1`; empty where there is none."""
    found = read_candidates(written).candidates
    return _BETWEEN.join(f"{plate}{_BEHIND}{weight:g}" for plate, weight in found)


@lru_cache(maxsize=2)  # all rules that an index finds look at one record after the other
def candidates_of(text: str) -> tuple[PlateCandidate, ...]:
    """Of such an attribute."""
    parts = (part.split(_BEHIND) for part in text.split(_BETWEEN) if part)
    return tuple(PlateCandidate(plate, float(weight)) for plate, weight in parts)
