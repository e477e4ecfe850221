"""Who may put, change and settle rules that only some units see. Pure.

In: a command with the unit of who asks, what is known. Out: `RuleError`, or nothing. Never: a
refusal that says of a hidden rule more than that its id is not free; a rule in force whose author
would not see it.
"""

from __future__ import annotations

from alarm.decisions.known_rules import KnownRules
from alarm.decisions.rule_states import REFUSALS
from bus.contracts.command_codes import (
    HIDDEN_PROPOSAL,
    ID_NOT_FREE,
    NO_PROPOSAL,
    NO_SUCH_RULE,
    NOT_VISIBLE,
)
from bus.contracts.commands import WatchCommand
from bus.domain.rule_check import RuleError
from bus.domain.visibility import Viewer, may_see


def asker_of(command: WatchCommand) -> Viewer:
    """As the program that asks says."""
    return Viewer(command.unit)


def is_hidden(command: WatchCommand, known: KnownRules) -> bool:
    """Whether the newest decision on the rule is hidden from who asks."""
    return not may_see(asker_of(command), known.get(command.rule_id).visible_to)


def check_visibility(command: WatchCommand, known: KnownRules, now_ms: int) -> None:
    """Of what cannot be seen nothing can be changed. Raises `RuleError`."""
    is_rule_hidden, is_proposal_hidden = is_hidden(command, known), _hides_proposal(command, known)
    if command.op == "put":
        is_absent = not known.get(command.rule_id).is_in_force(now_ms)
        if is_rule_hidden or (is_proposal_hidden and is_absent):
            raise RuleError("rule_id", "this id is not free: choose another", ID_NOT_FREE)
        if is_proposal_hidden:
            raise RuleError(
                "rule_id",
                "a proposal for this rule waits that you do not see: somebody who sees it has to"
                " settle it first",
                HIDDEN_PROPOSAL,
            )
        _check_text(command)
    elif command.op == "remove" and is_rule_hidden:
        raise _absent(NO_SUCH_RULE)
    elif command.op in ("approve", "reject", "withdraw") and (
        is_rule_hidden or is_proposal_hidden
    ):
        raise _absent(NO_PROPOSAL)


def _hides_proposal(command: WatchCommand, known: KnownRules) -> bool:
    waiting = known.waiting(command.rule_id)
    proposal = waiting.proposal() if waiting is not None else None
    return proposal is not None and not may_see(asker_of(command), proposal.text.visible_to)


def _check_text(command: WatchCommand) -> None:
    if not may_see(asker_of(command), command.visible_to):
        whose = f"of the unit {command.unit}" if command.unit else "of no unit"
        raise RuleError(
            "visible_to",
            f"you would not see the rule yourself: your account is {whose}; name that unit too, or"
            " let somebody of those units put the rule",
            NOT_VISIBLE,
        )


def _absent(code: str) -> RuleError:
    """In the words for a rule that does not exist."""
    field, text = REFUSALS[code]
    return RuleError(field, text, code)
