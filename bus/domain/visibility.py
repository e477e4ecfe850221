"""What somebody may see of rules, and of what comes of them; which alarms concern him. Pure.

In: who looks, the units that a rule is visible to. Out: yes or no. Never: who has which role
(`monitor.accounts`); a rule that the one who puts it would not see.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from bus.domain.command_error import CommandError

EVERY_UNIT = "*"
"""The unit of who sees what any unit sees; no unit has that name."""
MAX_UNITS = 20  # that one rule is visible to; more is everybody
MAX_UNIT_CHARACTERS = 40
MAX_DISTRICTS = 100
_SEPARATORS = frozenset(",;*\"'\\|")


class Viewer(NamedTuple):
    """Who looks. `unit`: empty where the account has none, `EVERY_UNIT` of who sees all.
    `districts`: of which he is told first; empty: of all."""

    unit: str = ""
    districts: frozenset[str] = frozenset()


EVERYTHING = Viewer(EVERY_UNIT)
"""Who works on the server, whose files he could read anyway, and what runs there."""


def may_see(viewer: Viewer, visible_to: Collection[str]) -> bool:
    """Whether a rule, or what came of it, that is visible to these units (none: to everybody)."""
    return not visible_to or viewer.unit == EVERY_UNIT or viewer.unit in visible_to


def concerns(viewer: Viewer, district_id: str, visible_to: Collection[str]) -> bool:
    """Whether an alarm is among those that are shown to him first: of one of his districts, of a
    place that is not known, or of a rule that names his unit."""
    return (
        not viewer.districts
        or not district_id
        or district_id in viewer.districts
        or (viewer.unit != EVERY_UNIT and viewer.unit in visible_to)
    )


def is_unit_name(name: str) -> bool:
    """Whether a unit may have it."""
    is_text = bool(name) and name == name.strip() and name.isprintable()
    return is_text and len(name) <= MAX_UNIT_CHARACTERS and _SEPARATORS.isdisjoint(name)


def check_units(visible_to: Sequence[str]) -> None:
    """Raises `CommandError` for what names no units."""
    if len(visible_to) > MAX_UNITS or len(set(visible_to)) != len(visible_to):
        raise CommandError("visible_to", f"at most {MAX_UNITS} units, each once", "unit_count")
    for name in visible_to:
        if not is_unit_name(name):
            raise CommandError(
                "visible_to",
                f"{name[:MAX_UNIT_CHARACTERS]!r}: a unit has 1 to {MAX_UNIT_CHARACTERS} characters,"
                " no comma, semicolon, quotation mark, * or | among them",
                "unit_name",
            )
