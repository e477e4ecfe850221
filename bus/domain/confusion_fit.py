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

Characters that the reader put in are a row, too: that of nothing, which stands once beside each
letter of a plate and is read as nothing, or as a character. Beside the letters of every character:
so the packaged counts weigh as `PRIOR_LETTERS` of each. A false alarm with one that was put in says
that nothing was, beside all letters of its plate. A character that the reader left out stands in
its own row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bus.domain.plate_alignment import aligned
from bus.domain.plate_confusion import DROPPED, ConfusionCounts

PRIOR_LETTERS = 200
NOTHING = ""
"""In a row of its own: what stands where a reader put a character in."""
MOST_OF_ONE = 10
"""So many alarms of one reading of one plate count: a dirty plate is no habit of the cameras."""


class JudgedReading(NamedTuple):
    """`plate`: that the rule means; `read`: what was written (`?`: unread). Both in normal form."""

    plate: str
    read: str
    is_confirmed: bool


class SiteConfusion(NamedTuple):
    """`confirmed`, `false`: alarms that count; `letters`: of plates, that the fit rests on beside
    the packaged table; `left_out`: alarms beyond `MOST_OF_ONE`, or too far from their plate.
    `inserted`, `omitted`: characters that confirmed alarms had too many, and too few."""

    counts: ConfusionCounts
    confirmed: int
    false: int
    letters: int
    left_out: int
    by_character: Mapping[str, int]
    """How many of the letters each character of plates has."""
    inserted: Mapping[str, int]
    omitted: Mapping[str, int]


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
        true: _fitted_row(true, row, site, PRIOR_LETTERS) for true, row in packaged.rows.items()
    }
    beside = {NOTHING: packaged.letters} | dict(packaged.inserted)
    inserted = _fitted_row(NOTHING, beside, site, PRIOR_LETTERS * len(packaged.rows))
    put_in = site.rows.pop(NOTHING, Counter())
    del inserted[NOTHING], put_in[NOTHING]
    by_character = {true: row.total() for true, row in sorted(site.rows.items())}
    omitted = {true: row[DROPPED] for true, row in sorted(site.rows.items()) if row[DROPPED]}
    return SiteConfusion(
        replace(packaged, rows=rows, inserted=inserted), confirmed, false,
        sum(by_character.values()), left_out, by_character, dict(sorted(put_in.items())), omitted,
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
            if true in packaged.rows:  # else put in, or of a plate of another kind
                self._add_letter(true, seen or DROPPED, is_confirmed=one.is_confirmed)
        self._add_inserted(one, Counter(seen for true, seen, _ in pairs if true == NOTHING))
        return True

    def _add_letter(self, true: str, written: str, *, is_confirmed: bool) -> None:
        if written != true:
            self.judged.setdefault(true, set()).add(written)
        if is_confirmed or written != true:
            self.rows.setdefault(true, Counter())[written if is_confirmed else true] += 1

    def _add_inserted(self, one: JudgedReading, inserted: Counter[str]) -> None:
        """What stands beside the letters of its plate."""
        if not (one.is_confirmed or inserted):
            return
        row = self.rows.setdefault(NOTHING, Counter())
        row[NOTHING] += len(one.plate)
        self.judged.setdefault(NOTHING, set()).update(inserted)
        if one.is_confirmed:
            row.update(inserted)


def _fitted_row(
    true: str, packaged: Mapping[str, int], tally: _SiteTally, prior_letters: int
) -> dict[str, int]:
    """With as many letters as before: how frequent a character is on plates is not what alarms
    tell, which are those of a few targets."""
    site, judged = tally.rows.get(true, Counter()), tally.judged.get(true, set())
    total = sum(packaged.values())
    open_to = {true: packaged.get(true, 0)} | {one: packaged.get(one, 0) for one in sorted(judged)}
    weight = sum(open_to.values())
    prior = prior_letters * weight / total
    shares = {
        seen: (site[seen] + prior_letters * count / total) / (site.total() + prior)
        for seen, count in open_to.items()
    }
    counted = dict(packaged) | {seen: round(share * weight) for seen, share in shares.items()}
    counted[true] = max(1, counted[true])
    return {seen: count for seen, count in counted.items() if count}
