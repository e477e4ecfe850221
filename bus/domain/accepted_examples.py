"""Examples of the plates that the conditions of a rule accept, so that who writes it sees what it
means. Pure.

In: a tree that was checked. Out: by condition, readings and plates that meet it. Never: a condition
that the rule refuses (`not`), nor one of anything but plates; an example that does not meet it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bus.contracts.expressions import (
    Expression,
    Leaf,
    Negation,
    OnList,
    Resemblance,
    Substring,
    Wildcard,
)
from bus.domain.accepted_readings import accepted_readings
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.expressions.tree import parts_of
from bus.domain.fuzzy_plate import plate_up_to
from bus.domain.look_alikes import GROUPS
from bus.domain.plate_patterns import PlatePattern, plate_pattern
from bus.domain.plates import ANY_RUN, PROVINCE_LENGTHS, PROVINCES, UNREAD
from bus.domain.rule_values import PLATE

USUAL_EXAMPLES = 3
_LETTERS, _SERIALS = "ABC", "38F05K29"
"""What stands for a character that is not given: behind the province, and in the serial."""


class AcceptedExamples(NamedTuple):
    """A condition and what meets it. Of a list: characters that are one where it tolerates
    look-alikes."""

    leaf: Leaf
    plates: tuple[str, ...]


def accepted_examples(
    tree: Expression, confusion: ConfusionTable = PACKAGED
) -> list[AcceptedExamples]:
    """Each condition once, in the order in which they are written."""
    leaves = _asked_for(tree)
    found = (AcceptedExamples(leaf, tuple(_examples_of(leaf, confusion))) for leaf in leaves)
    return list(dict.fromkeys(one for one in found if one.plates))


def pattern_examples(pattern: PlatePattern, most: int = USUAL_EXAMPLES) -> list[str]:
    """Plates of the usual length that are like it, or as long as the pattern, if it is longer."""
    runs = pattern.text.count(ANY_RUN)
    free = max(0, PROVINCE_LENGTHS[0] - len(pattern.text) + runs) if runs else 0
    found = dict.fromkeys(_filled(pattern.text, free, number) for number in range(most))
    return [plate for plate in found if pattern.is_met_by(plate)]


def _asked_for(tree: Expression, *, negated: bool = False) -> Iterator[Leaf]:
    if isinstance(tree, Resemblance | Wildcard | Substring | OnList) and not negated:
        yield tree
    for part in parts_of(tree):
        yield from _asked_for(part, negated=negated is not isinstance(tree, Negation))


def _examples_of(leaf: Leaf, confusion: ConfusionTable) -> list[str]:
    match leaf:
        case Resemblance(plate=plate, highest_price=highest):
            wanted = plate_up_to(plate, highest)
            return accepted_readings(wanted, confusion=confusion) if wanted else []
        case Wildcard(attribute=attribute, pattern=text) if attribute == PLATE:
            return _examples_of_pattern(text)
        case Substring(attribute=attribute, text=text) if attribute == PLATE:
            return _examples_of_pattern(f"{ANY_RUN}{text}{ANY_RUN}")
        case OnList(attribute=attribute) if attribute == PLATE:
            return list(GROUPS)
    return []


def _examples_of_pattern(text: str) -> list[str]:
    pattern = plate_pattern(text)
    return pattern_examples(pattern) if pattern else []


def _filled(text: str, free: int, number: int) -> str:
    """With so many characters in place of its runs: of several runs the first gets as many as its
    turn says, at least a province where nothing stands before it; the last the rest."""
    head, *parts = text.split(ANY_RUN)
    least = 0 if head else min(1, free)
    first = free if len(parts) < 2 else max(least, free - number)
    lengths = [first, *[0] * (len(parts) - 2), free - first] if len(parts) > 1 else [first]
    spread = head + "".join(
        UNREAD * length + part for length, part in zip(lengths, parts, strict=False)
    )
    return "".join(
        _sign(at, number) if sign == UNREAD else sign for at, sign in enumerate(spread)
    )


def _sign(at: int, number: int) -> str:
    if at == 0:
        return PROVINCES[number * 5 % len(PROVINCES)]
    if at == 1:
        return _LETTERS[number % len(_LETTERS)]
    return _SERIALS[(at * 3 + number * 5) % len(_SERIALS)]
