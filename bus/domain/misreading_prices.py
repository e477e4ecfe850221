"""What it costs to take one character of a plate for another: from counts. Pure.

In: `ConfusionCounts`. Out: prices. A price is the logarithm of how much less a character that was
read speaks for the plate than a sure and right one would, against all plates that it could come
from: a misreading that is often seen costs little, unless the reader is sure of it or others are
read so, too. The unit is that of a pair that was never seen, which costs 1. Never: a price below
`LEAST` for a character that is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from bus.domain.plate_confusion import BANDS, DROPPED, ConfusionCounts, band_of, is_misreading
from bus.domain.plates import PROVINCES, UNREAD

LEAST, LEAST_OF_PLACE, UNKNOWN = 0.05, 0.51, 1.0
"""The lowest price of an edit; that of a character too few or too many, since all behind it moves:
at the price of one edit without evidence there are no two of them; the price of such an edit."""
UNSAID = BANDS
"""The band of a reader that says nothing."""
_PRIOR = 200.0
"""So many readings of a character are taken for granted in which all other characters are as rare
as those that were never seen: few readings of a character are little evidence."""
HOME_SHARE = 0.5
"""Of the cars that pass where a plate is looked for, those of its own province: an assumption."""

PairPrices = Mapping[str, Mapping[str, float]]
"""Character of the plate -> character that was read -> price."""


def price_band(sure: float | None) -> int:
    """The band of what a reader says of a character, 0 to 1; None if it says nothing."""
    return UNSAID if sure is None else band_of(sure)


@dataclass(frozen=True, slots=True)
class MisreadingPrices:
    """Prices by band (`price_band`) and character; what is not in a table has no evidence."""

    taken_for: tuple[PairPrices, ...]
    right: tuple[Mapping[str, float], ...]
    """Of a character that is read as it is: the less sure the reader, the more; nothing if it says
    nothing."""
    unknown: tuple[float, ...]
    unread: Mapping[str, float]
    dropped: Mapping[str, float]
    inserted: Mapping[str, float]
    unit: float
    """Logarithms that a price of 1 is."""

    def substitution(self, true: str, read: str, band: int) -> float:
        """For a character read as itself, as another, or as unread."""
        if read == true:
            return self.right[band].get(true, 0.0)
        if read == UNREAD:
            return self.unread.get(true, UNKNOWN)
        row = self.taken_for[band].get(true)
        unknown = self.unknown[band]
        return row.get(read, unknown) if row else unknown

    def deletion(self, true: str) -> float:
        """For a character of the plate that the reading lacks."""
        return self.dropped.get(true, UNKNOWN)

    def insertion(self, read: str) -> float:
        """For a character that was read where the plate has none."""
        return self.inserted.get(read, UNKNOWN)

    def candidate(self, weight: float) -> float:
        """For taking a further candidate of the reader instead of what it wrote: how much less than
        sure it is of that one, and no less than the cheapest misreading."""
        return max(LEAST, -log(weight) / self.unit)


@dataclass(frozen=True, slots=True)
class _OverallShares:
    """What the whole table says."""

    letters: int
    right: float
    rare: float
    unread: float
    dropped: float
    wrong_to_right: tuple[float, ...]
    """By band, how much more often a wrong character is in it than a right one."""

    def price(self, ratio: float) -> float:
        """Of what is so many times less likely."""
        return min(UNKNOWN, max(LEAST, log(ratio) / self.unit))

    @property
    def unit(self) -> float:
        """The logarithm of how much likelier a right reading is than a pair that was never seen."""
        return log(max(2.0, self.right / self.rare))


@dataclass(frozen=True, slots=True)
class _CharacterShares:
    """How often a character is read, rightly and wrongly, of all readings in its places: that of
    provinces, or the others."""

    right: Mapping[str, float]
    wrong: Mapping[str, float]

    def of(self, read: str, wrong_to_right: float, rare: float) -> float:
        """How much speaks for the other plates where it is read, the reader being so sure."""
        return self.right.get(read, rare) / wrong_to_right + self.wrong.get(read, rare)


def prices_of(counts: ConfusionCounts) -> MisreadingPrices:
    """The prices that the counts give."""
    shares = _overall_shares(counts)
    others = _character_shares(counts, _frequencies(counts))
    bands = range(BANDS + 1)
    taken_for: list[dict[str, dict[str, float]]] = [{} for _ in bands]
    right: list[dict[str, float]] = [{} for _ in bands]
    unread, dropped = {}, {}
    for true, row in counts.rows.items():
        is_province = true in PROVINCES
        own = _character_shares(counts, _province_shares(true)) if is_province else others
        total = sum(row.values()) + _PRIOR
        is_right = (row.get(true, 0) + _PRIOR * shares.right) / total
        worth = is_right / own.right.get(true, shares.rare)
        for band, more in enumerate(shares.wrong_to_right):
            taken_for[band][true] = {
                read: shares.price(
                    worth * own.of(read, more, shares.rare) * total / (count + _PRIOR * shares.rare)
                )
                for read, count in row.items()
                if is_misreading(true, read)
            }
            doubt = own.of(true, more, shares.rare) * more / own.right.get(true, shares.rare)
            right[band][true] = log(doubt) / shares.unit if band != UNSAID else 0.0
        is_unread = (row.get(UNREAD, 0) + _PRIOR * shares.unread) / total / shares.unread
        unread[true] = shares.price(worth / is_unread)
        is_dropped = (row.get(DROPPED, 0) + _PRIOR * shares.dropped) / total
        dropped[true] = max(LEAST_OF_PLACE, shares.price(is_right / is_dropped))
    inserted = {
        read: max(LEAST_OF_PLACE, shares.price(shares.right * shares.letters / count))
        for read, count in counts.inserted.items()
    }
    unknown = tuple(UNKNOWN + max(0.0, -log(more) / shares.unit) for more in shares.wrong_to_right)
    tables = tuple(taken_for), tuple(right), unknown, unread, dropped, inserted
    return MisreadingPrices(*tables, shares.unit)


def _overall_shares(counts: ConfusionCounts) -> _OverallShares:
    letters = max(1, counts.letters)
    rows = counts.rows.items()
    right = max(1, sum(row.get(true, 0) for true, row in rows)) / letters
    unread, dropped = (
        max(1, sum(row.get(sign, 0) for _, row in rows)) / letters for sign in (UNREAD, DROPPED)
    )
    all_right, all_wrong = sum(counts.right) + BANDS, sum(counts.wrong) + BANDS
    more = tuple(
        (in_wrong + 1) / all_wrong / ((in_right + 1) / all_right)
        for in_right, in_wrong in zip(counts.right, counts.wrong, strict=True)
    )
    return _OverallShares(letters, right, _rare(counts), unread, dropped, (*more, 1.0))


def _frequencies(counts: ConfusionCounts) -> dict[str, float]:
    """Of characters behind the province, as they were drawn."""
    found = {
        true: float(sum(row.values()))
        for true, row in counts.rows.items()
        if true not in PROVINCES
    }
    total = max(1.0, sum(found.values()))
    return {true: count / total for true, count in found.items()}


def _province_shares(own: str) -> dict[str, float]:
    """Of provinces among the cars that pass where a plate of this one is looked for."""
    other = (1 - HOME_SHARE) / (len(PROVINCES) - 1)
    return {true: HOME_SHARE if true == own else other for true in PROVINCES}


def _character_shares(
    counts: ConfusionCounts, frequencies: Mapping[str, float]
) -> _CharacterShares:
    right: dict[str, float] = {}
    wrong: dict[str, float] = {}
    for true, frequency in frequencies.items():
        row = counts.rows.get(true, {})
        total = max(1, sum(row.values()))
        for read, count in row.items():
            if read == true:
                right[read] = frequency * count / total
            else:
                wrong[read] = wrong.get(read, 0.0) + frequency * count / total
    return _CharacterShares(right, wrong)


def _rare(counts: ConfusionCounts) -> float:
    """How likely one certain pair is that was never seen: as many readings as were seen once, on
    all pairs that were not (Good and Turing)."""
    seen = [
        count
        for true, row in counts.rows.items()
        for read, count in row.items()
        if is_misreading(true, read)
    ]
    kinds = max(2, len(counts.rows))
    unseen = max(1, kinds * (kinds - 1) - len(seen))
    return max(1, seen.count(1)) / max(1, counts.letters) * kinds / unseen
