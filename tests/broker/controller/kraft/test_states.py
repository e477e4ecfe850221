"""The table of states, cell by cell."""

from __future__ import annotations

import pytest

from broker.controller.kraft.states import TRANSITIONS, Event, Role, next_role
from bus.errors import CheckFailed

EXPECTED = """
              NEWER_EPOCH LEADER_FOUND ELECTION_DUE WOULD_WIN  WON     LOST        RESIGN   ADDED      REMOVED
UNATTACHED    UNATTACHED  FOLLOWER     PROSPECTIVE  -          -       -           -        -          OBSERVER
PROSPECTIVE   UNATTACHED  FOLLOWER     -            CANDIDATE  -       UNATTACHED  -        -          OBSERVER
CANDIDATE     UNATTACHED  FOLLOWER     -            -          LEADER  PROSPECTIVE -        -          OBSERVER
LEADER        UNATTACHED  FOLLOWER     -            -          -       -           RESIGNED -          -
FOLLOWER      UNATTACHED  FOLLOWER     PROSPECTIVE  -          -       -           -        -          OBSERVER
OBSERVER      OBSERVER    OBSERVER     -            -          -       -           -        UNATTACHED -
RESIGNED      UNATTACHED  FOLLOWER     -            -          -       -           -        -          OBSERVER
"""


def cells() -> list[tuple[Role, Event, Role | None]]:
    """Every state with every event."""
    head, *rows = EXPECTED.strip().splitlines()
    events = [Event[name] for name in head.split()]
    return [
        (Role[name], event, None if cell == "-" else Role[cell])
        for name, *row in (line.split() for line in rows)
        for event, cell in zip(events, row, strict=True)
    ]


@pytest.mark.parametrize(("role", "event", "expected"), cells())
def test_every_cell_of_the_table(role: Role, event: Event, expected: Role | None) -> None:
    """A legal cell leads where the table says; an illegal one stops the process."""
    if expected is None:
        with pytest.raises(CheckFailed):
            next_role(role, event)
    else:
        assert next_role(role, event) is expected


def test_the_table_knows_every_state_and_event() -> None:
    """None was forgotten here or there."""
    assert len(cells()) == len(Role) * len(Event)
    assert {event for _, event in TRANSITIONS} == set(Event)
