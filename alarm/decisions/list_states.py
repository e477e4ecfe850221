"""The table of a list's states and of what can be asked for. Pure; see `list_machine`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from bus.contracts.command_codes import NO_PROPOSAL, NO_SUCH_LIST


class ListState(Enum):
    """Where a list is in its life."""

    ABSENT = "absent"
    PROPOSED = "proposed"
    IN_FORCE = "in force"
    CHANGING = "in force, a change is proposed"
    ENDED = "ended"


ACTIONS = (
    "put", "change", "propose", "propose change", "approve", "reject", "withdraw", "remove",
)  # fmt: skip
_STARTS: tuple[ListState | str, ...] = (
    ListState.IN_FORCE, NO_SUCH_LIST, ListState.PROPOSED, NO_SUCH_LIST,
    NO_PROPOSAL, NO_PROPOSAL, NO_PROPOSAL, NO_SUCH_LIST,
)  # fmt: skip
_ROWS: Mapping[ListState, tuple[ListState | str, ...]] = {
    ListState.ABSENT: _STARTS,
    ListState.PROPOSED: (
        ListState.IN_FORCE, NO_SUCH_LIST, ListState.PROPOSED, NO_SUCH_LIST,
        ListState.IN_FORCE, ListState.ENDED, ListState.ENDED, NO_SUCH_LIST,
    ),
    ListState.IN_FORCE: (
        ListState.IN_FORCE, ListState.IN_FORCE, ListState.CHANGING, ListState.CHANGING,
        NO_PROPOSAL, NO_PROPOSAL, NO_PROPOSAL, ListState.ENDED,
    ),
    ListState.CHANGING: (
        ListState.IN_FORCE, ListState.IN_FORCE, ListState.CHANGING, ListState.CHANGING,
        ListState.IN_FORCE, ListState.IN_FORCE, ListState.IN_FORCE, ListState.ENDED,
    ),
    ListState.ENDED: _STARTS,
}  # fmt: skip

TRANSITIONS: Mapping[tuple[ListState, str], ListState | str] = MappingProxyType({
    (state, action): following
    for state, row in _ROWS.items()
    for action, following in zip(ACTIONS, row, strict=True)
})  # fmt: skip
"""A state and what is asked for: the next state (absent where no list was decided on before), or
the reason of the refusal."""

REFUSALS: Mapping[str, str] = MappingProxyType({
    NO_SUCH_LIST: "no list of this id is in force",
    NO_PROPOSAL: "nothing is proposed under this id: it may be settled already",
})
"""Of each reason in the table, what to do."""
