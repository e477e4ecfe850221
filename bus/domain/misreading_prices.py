"""What it costs to take one character of a plate for another: from counts. Pure.

In: `ConfusionCounts`. Out: prices. An edit of which the counts know nothing costs 1; a misreading
that is often seen costs less, and more if the reader is sure of the character. A price is the
logarithm of how much likelier the right reading is, in the unit of a pair that was never seen.
Never: a price below `LEAST`: two readings are not the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log

from bus.domain.plate_confusion import BANDS, DROPPED, ConfusionCounts, band_of, is_misreading
from bus.domain.plate_confusion_tables import FIT
from bus.domain.plates import UNREAD

LEAST, LEAST_OF_PLACE, UNKNOWN = 0.05, 0.51, 1.0
"""The lowest price of an edit; that of a character too few or too many, since all behind it moves:
at the price of one edit without evidence there are no two of them; the price of such an edit."""
_PRIOR = 200.0
"""So many readings of a character are taken for granted in which all other characters are as rare
as those that were never seen: few readings of a character are little evidence."""


@dataclass(frozen=True, slots=True)
class MisreadingPrices:
    """Prices of edits from a plate to its reading; what is not in a table costs `UNKNOWN`."""

    taken_for: Mapping[str, Mapping[str, float]]
    """Character of the plate -> character that was read -> price."""
    unread: Mapping[str, float]
    dropped: Mapping[str, float]
    inserted: Mapping[str, float]
    surcharges: tuple[float, ...]
    """By band of what the reader says of the character that it read: what to add, or less."""

    def substitution(self, true: str, read: str, sure: float | None = None) -> float:
        """For a character read as another, or as unread; `sure`: 0 to 1, None if not said."""
        if read == UNREAD:
            return self.unread.get(true, UNKNOWN)
        row = self.taken_for.get(true)
        return self._with(row.get(read, UNKNOWN) if row else UNKNOWN, sure)

    def deletion(self, true: str) -> float:
        """For a character of the plate that the reading lacks."""
        return self.dropped.get(true, UNKNOWN)

    def insertion(self, read: str, sure: float | None = None) -> float:
        """For a character that was read where the plate has none."""
        return max(LEAST_OF_PLACE, self._with(self.inserted.get(read, UNKNOWN), sure))

    def _with(self, price: float, sure: float | None) -> float:
        """An unsure reader makes a misreading cheaper that was seen, and no other."""
        if sure is None:
            return price
        surcharge = self.surcharges[band_of(sure)]
        return max(LEAST, price + surcharge) if price < UNKNOWN else price + max(0.0, surcharge)


@dataclass(frozen=True, slots=True)
class _OverallShares:
    """What the whole table says: of a character of which little was counted it is all there is."""

    letters: int
    right: float
    rare: float
    unread: float
    dropped: float

    def price(self, ratio: float) -> float:
        """Of a right reading that is so many times likelier."""
        return min(UNKNOWN, max(LEAST, log(ratio) / self.unit))

    @property
    def unit(self) -> float:
        """The logarithm of how much likelier a right reading is than a pair that was never seen."""
        return log(max(2.0, self.right / self.rare))


def prices_of(counts: ConfusionCounts) -> MisreadingPrices:
    """The prices that the counts give."""
    shares = _shares(counts)
    taken_for, unread, dropped = {}, {}, {}
    for true, row in counts.rows.items():
        total = sum(row.values()) + _PRIOR
        right = (row.get(true, 0) + _PRIOR * shares.right) / total
        taken_for[true] = {
            read: shares.price(right * total / (count + _PRIOR * shares.rare))
            for read, count in row.items()
            if is_misreading(true, read)
        }
        # Not to read a character says of no plate anything: what is lost is what it would say.
        own = (row.get(UNREAD, 0) + _PRIOR * shares.unread) / total / shares.unread
        unread[true] = shares.price(right * shares.letters / (max(1, row.get(true, 0)) * own))
        ratio = right * total / (row.get(DROPPED, 0) + _PRIOR * shares.dropped)
        dropped[true] = max(LEAST_OF_PLACE, shares.price(ratio))
    inserted = {
        read: max(LEAST_OF_PLACE, shares.price(shares.right * shares.letters / count))
        for read, count in counts.inserted.items()
    }
    return MisreadingPrices(taken_for, unread, dropped, inserted, _surcharges(counts, shares.unit))


@lru_cache(maxsize=1)
def measured_prices() -> MisreadingPrices:
    """Those that rules go by."""
    return prices_of(FIT)


def _shares(counts: ConfusionCounts) -> _OverallShares:
    letters = max(1, counts.letters)

    def share(of: Callable[[str], str]) -> float:
        return max(1, sum(row.get(of(true), 0) for true, row in counts.rows.items())) / letters

    return _OverallShares(
        letters,
        share(lambda true: true),
        _rare(counts),
        share(lambda _: UNREAD),
        share(lambda _: DROPPED),
    )


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


def _surcharges(counts: ConfusionCounts, unit: float) -> tuple[float, ...]:
    right, wrong = sum(counts.right) + BANDS, sum(counts.wrong) + BANDS
    return tuple(
        log((is_right + 1) / right / ((is_wrong + 1) / wrong)) / unit
        for is_right, is_wrong in zip(counts.right, counts.wrong, strict=True)
    )

