"""The table of a rule's states and of what can be asked for. Pure; see `rule_machine`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from bus.contracts.command_codes import (
    EMERGENCY_IN_FORCE,
    NO_PROPOSAL,
    NO_SUCH_RULE,
    NOT_A_REQUEST,
)


class RuleState(Enum):
    """Where a rule is in its life."""

    ABSENT = "absent"
    PROPOSED = "proposed"
    IN_FORCE = "in force"
    CHANGING = "in force, a change is proposed"
    ENDED = "ended"


ACTIONS = (
    "put", "propose", "emergency", "approve", "reject", "withdraw", "remove", "floor",
)  # fmt: skip
_STARTS: tuple[RuleState | str, ...] = (
    RuleState.IN_FORCE, RuleState.PROPOSED, RuleState.IN_FORCE,
    NO_PROPOSAL, NO_PROPOSAL, NO_PROPOSAL, NO_SUCH_RULE, NOT_A_REQUEST,
)  # fmt: skip
_ROWS: Mapping[RuleState, tuple[RuleState | str, ...]] = {
    RuleState.ABSENT: _STARTS,
    RuleState.PROPOSED: (
        RuleState.IN_FORCE, RuleState.PROPOSED, RuleState.CHANGING,
        RuleState.IN_FORCE, RuleState.ENDED, RuleState.ENDED, NO_SUCH_RULE, NOT_A_REQUEST,
    ),
    RuleState.IN_FORCE: (
        RuleState.IN_FORCE, RuleState.CHANGING, EMERGENCY_IN_FORCE,
        NO_PROPOSAL, NO_PROPOSAL, NO_PROPOSAL, RuleState.ENDED, NOT_A_REQUEST,
    ),
    RuleState.CHANGING: (
        RuleState.IN_FORCE, RuleState.CHANGING, EMERGENCY_IN_FORCE,
        RuleState.IN_FORCE, RuleState.IN_FORCE, RuleState.IN_FORCE, RuleState.ENDED, NOT_A_REQUEST,
    ),
    RuleState.ENDED: _STARTS,
}  # fmt: skip

TRANSITIONS: Mapping[tuple[RuleState, str], RuleState | str] = MappingProxyType({
    (state, action): following
    for state, row in _ROWS.items()
    for action, following in zip(ACTIONS, row, strict=True)
})  # fmt: skip
"""A state and what is asked for: the next state, or the reason of the refusal."""

REFUSALS: Mapping[str, tuple[str, str]] = MappingProxyType({
    NO_SUCH_RULE: ("rule_id", "no rule of this id is in force"),
    NO_PROPOSAL: ("rule_id", "nothing is proposed under this id: it may be settled already"),
    NOT_A_REQUEST: ("op", "a version floor is written by the site itself; ask for put or remove"),
    EMERGENCY_IN_FORCE: (
        "emergency_hours",
        "a rule of this id is in force: propose the change, or give the emergency an id of its own",
    ),
})
"""Of each reason in the table the field, and what to do."""
