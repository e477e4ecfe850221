"""Which plates a list takes for one beside the plate itself: look-alikes, one edit. Pure.

In: a plate. Out: its folded form, which two plates share that differ only in characters that
readers often take for each other; whether two plates are one edit apart.
Never: a province's character; a judgement of how likely one reading is (`misreading_prices`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.domain.plate_confusion import ConfusionCounts, is_misreading
from bus.domain.plate_confusion_tables import FIT

LEAST_SHARE = 0.03
"""Of the readings of a character those that have another in its place: from here on the two are one
(`B` read as `8`: 12 %; `Z` as `2`, 1.7 %, stays apart). A group is what is connected by pairs."""
_OF_NO_PLATE = {"I": "1", "O": "0"}
"""Letters that GA 36 gives to no plate, so that nothing was measured: they are drawn as digits."""


def groups_of(counts: ConfusionCounts) -> tuple[str, ...]:
    """The characters of each group, in order; only letters and digits."""
    groups = {sign: {sign} for sign in (*counts.rows, *_OF_NO_PLATE) if sign.isascii()}
    pairs = [
        (true, read)
        for true, row in counts.rows.items()
        for read, count in row.items()
        if is_misreading(true, read) and count >= LEAST_SHARE * sum(row.values())
    ]
    for one, other in (*pairs, *_OF_NO_PLATE.items()):
        if one in groups and other in groups and groups[one] is not groups[other]:
            both = groups[one] | groups[other]
            groups.update(dict.fromkeys(both, both))
    return tuple(sorted({"".join(sorted(group)) for group in groups.values() if len(group) > 1}))


GROUPS = groups_of(FIT)
FOLDED_SIGNS: Mapping[int, int] = {
    ord(sign): ord(group[0]) for group in GROUPS for sign in group
}
"""Code of a character -> code of the first of its group."""


def folded_alike(plate: str) -> str:
    """The plate with one character for each group."""
    return plate.translate(FOLDED_SIGNS)


def is_near(one: str, other: str) -> bool:
    """Whether at most one character is too few, too many or another."""
    if abs(len(one) - len(other)) > 1:
        return False
    begin, least = 0, min(len(one), len(other))
    while begin < least and one[begin] == other[begin]:
        begin += 1
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    rest = begin + 1 if len(one) == len(other) else begin
    return longer[begin + 1 :] == shorter[rest:]


def parts_without_one(plate: str) -> frozenset[str]:
    """The plate, and what is left of it without each of its characters: two plates that are one
    edit apart have such a part in common."""
    return frozenset((plate, *(plate[:at] + plate[at + 1 :] for at in range(len(plate)))))
