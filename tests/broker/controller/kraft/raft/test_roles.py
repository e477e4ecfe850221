"""The table of states, cell by cell."""

from __future__ import annotations

import pytest

from broker.controller.kraft.raft.roles import TRANSITIONS, RaftRole, RoleEvent, next_role
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


def cells() -> list[tuple[RaftRole, RoleEvent, RaftRole | None]]:
    """Every state with every event."""
    head, *rows = EXPECTED.strip().splitlines()
    events = [RoleEvent[name] for name in head.split()]
    return [
        (RaftRole[name], event, None if cell == "-" else RaftRole[cell])
        for name, *row in (line.split() for line in rows)
        for event, cell in zip(events, row, strict=True)
    ]


@pytest.mark.parametrize(("role", "event", "expected"), cells())
def test_every_cell_of_the_table(role: RaftRole, event: RoleEvent, expected: RaftRole | None) -> None:
    """A legal cell leads to the table's state; an illegal one stops the process."""
    if expected is None:
        with pytest.raises(CheckFailed):
            next_role(role, event)
    else:
        assert next_role(role, event) is expected


def test_the_table_knows_every_state_and_event() -> None:
    """The table, the states and the events are complete."""
    assert len(cells()) == len(RaftRole) * len(RoleEvent)
    assert {event for _, event in TRANSITIONS} == set(RoleEvent)
