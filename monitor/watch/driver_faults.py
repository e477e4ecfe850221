"""One fault of a driver is one incident, though every stage that it does stands. Pure.

In: the conditions of a step, which driver does which stage. Out: the same, those of one driver and
its standing stages as one, the others named in it. Never: a stage forgotten: the incident stays
open while any of them stands.
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
    """`driver_of`: by stage; a driver may be named like a stage of its own. What stood first has the
    incident; of what is found at once, the driver itself, which says why."""
    found = list(conditions)
    drivers = {one: one for one in driver_of.values()} | dict(driver_of)
    standing = [one for one in found if one.kind == STANDING and one.subject in drivers]
    merged: list[Condition] = [one for one in found if one not in standing]
    for driver in dict.fromkeys(drivers[one.subject] for one in standing):
        mine = _one_each(one for one in standing if drivers[one.subject] == driver)
        merged += _merged(sorted(mine, key=lambda one: one.subject != driver), is_open)
    return merged


def _one_each(conditions: Iterable[Condition]) -> list[Condition]:
    """What stands counts: a process may be well whose stage stands. The shorter bound counts where
    both do."""
    by_subject: dict[str, Condition] = {}
    for one in sorted(conditions, key=lambda one: (not one.is_bad, one.bound_ms)):
        by_subject.setdefault(one.subject, one)
    return list(by_subject.values())


def _merged(mine: list[Condition], is_open: Callable[[str, str], bool]) -> list[Condition]:
    bad = [one for one in mine if one.is_bad]
    if not bad:
        return mine
    first = next((one for one in mine if is_open(STANDING, one.subject)), bad[0])
    worst = first if first.is_bad else bad[0]
    names = " ".join(sorted(one.subject for one in bad))
    detail = {**worst.detail, "stages": names} if names != first.subject else worst.detail
    told = replace(worst, subject=first.subject, detail=detail)
    return [told if one is first else _unsaid(one) for one in mine]


def _unsaid(one: Condition) -> Condition:
    return replace(one, is_bad=None) if one.is_bad else one
