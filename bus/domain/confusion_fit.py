"""A table of misreadings, fitted again by what operators found out about alarms. Pure.

In: readings of plates that rules met, each confirmed or false; the packaged counts. Out: counts for
`misreading_prices`, and how many letters they rest on. Never: reading alarms
(`alarm.judged_readings`); what the reader says of its characters, of which alarms show a biased
part: the packaged numbers stay.

A row of the packaged counts weighs as much as `PRIOR_LETTERS` letters of the site: with as many of
a character the truth lies in the middle. A pair that stands in no judged alarm keeps its share: an
alarm shows only what rules accept already, so that its absence says nothing. A confirmed alarm is
its plate's letters as they were read. A false one says that the characters which differ were not
misread: each counts as a letter of the plate's character that was read right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bus.domain.plate_alignment import aligned
from bus.domain.plate_confusion import DROPPED, ConfusionCounts

PRIOR_LETTERS = 200
MOST_OF_ONE = 10
"""So many alarms of one reading of one plate count: a dirty plate is no habit of the cameras."""


class JudgedReading(NamedTuple):
    """`plate`: that the rule means; `read`: what was written (`?`: unread). Both in normal form."""

    plate: str
    read: str
    is_confirmed: bool


class SiteConfusion(NamedTuple):
    """`confirmed`, `false`: alarms that count; `letters`: of plates, that the fit rests on beside
    the packaged table; `left_out`: alarms beyond `MOST_OF_ONE`, or too far from their plate."""

    counts: ConfusionCounts
    confirmed: int
    false: int
    letters: int
    left_out: int
    by_character: Mapping[str, int]
    """How many of the letters each character of plates has."""


def fitted(readings: Iterable[JudgedReading], packaged: ConfusionCounts) -> SiteConfusion:
    """The counts of a site; the packaged ones where no reading counts."""
    site = _SiteTally()
    known: Counter[JudgedReading] = Counter()
    confirmed = false = left_out = 0
    for one in readings:
        known[one] += 1
        if known[one] > MOST_OF_ONE or not site.add(one, packaged):
            left_out += 1
        elif one.is_confirmed:
            confirmed += 1
        else:
            false += 1
    rows = {
        true: _fitted_row(true, row, site.rows.get(true, Counter()), site.judged.get(true, set()))
        for true, row in packaged.rows.items()
    }
    by_character = {true: row.total() for true, row in sorted(site.rows.items())}
    return SiteConfusion(
        replace(packaged, rows=rows), confirmed, false, sum(by_character.values()), left_out,
        by_character,
    )  # fmt: skip


@dataclass(slots=True)
class _SiteTally:
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    judged: dict[str, set[str]] = field(default_factory=dict)
    """Of each character, as what it was, or was said to be, read."""

    def add(self, one: JudgedReading, packaged: ConfusionCounts) -> bool:
        """False for a reading too far from its plate, and a false one that is equal to it: then the
        plate was none of the reasons."""
        pairs = aligned(one.plate, one.read, [1.0] * len(one.read))
        if pairs is None or (not one.is_confirmed and one.read == one.plate):
            return False
        for true, seen, _ in pairs:
            if true not in packaged.rows:
                continue  # put in by the reader, or of a plate of another kind
            written = seen or DROPPED
            if written != true:
                self.judged.setdefault(true, set()).add(written)
            if one.is_confirmed or written != true:
                self.rows.setdefault(true, Counter())[written if one.is_confirmed else true] += 1
        return True


def _fitted_row(
    true: str, packaged: Mapping[str, int], site: Counter[str], judged: set[str]
) -> dict[str, int]:
    """With as many letters as before: how frequent a character is on plates is not what alarms
    tell, which are those of a few targets."""
    total = sum(packaged.values())
    open_to = {true: packaged.get(true, 0)} | {one: packaged.get(one, 0) for one in sorted(judged)}
    weight = sum(open_to.values())
    prior = PRIOR_LETTERS * weight / total
    shares = {
        seen: (site[seen] + PRIOR_LETTERS * count / total) / (site.total() + prior)
        for seen, count in open_to.items()
    }
    counted = dict(packaged) | {seen: round(share * weight) for seen, share in shares.items()}
    counted[true] = max(1, counted[true])
    return {seen: count for seen, count in counted.items() if count}
