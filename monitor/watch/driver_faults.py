"""One fault of a driver is one incident, though every stage that it does stands. Pure.

In: the conditions of a step, which driver does which stage. Out: the same, those of one driver's
standing stages as one, the others named in it. Never: a stage forgotten: the incident stays open
while any of them stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from monitor.watch.conditions import Condition

STANDING = "standing"


def one_per_driver(
    conditions: Iterable[Condition],
    driver_of: Mapping[str, str],
    is_open: Callable[[str, str], bool],
) -> list[Condition]:
    """`driver_of`: by stage. The first stage that stood has the incident."""
    found = list(conditions)
    standing = [one for one in found if one.kind == STANDING and one.subject in driver_of]
    merged: dict[str, Condition] = {}
    for driver in {driver_of[one.subject] for one in standing}:
        mine = [one for one in standing if driver_of[one.subject] == driver]
        merged |= _merged(mine, is_open, is_open(STANDING, driver))
    return [merged.get(one.subject, one) if one.kind == STANDING else one for one in found]


def _merged(
    mine: list[Condition], is_open: Callable[[str, str], bool], is_reported: bool
) -> dict[str, Condition]:
    bad = [one for one in mine if one.is_bad]
    if not bad:
        return {}
    if is_reported:  # the driver itself was suspended: that is said of it
        return {one.subject: replace(one, is_bad=None) for one in bad}
    first = next((one for one in mine if is_open(STANDING, one.subject)), bad[0])
    worst = first if first.is_bad else bad[0]
    names = " ".join(sorted(one.subject for one in bad))
    detail = {**worst.detail, "stages": names} if names != first.subject else worst.detail
    others = {one.subject: replace(one, is_bad=None) for one in bad if one is not first}
    return {**others, first.subject: replace(worst, subject=first.subject, detail=detail)}
