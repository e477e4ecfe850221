"""What the site's policy asks of a request: approval, reasons, emergencies. Pure.

In: a request, the policy, what is known. Out: which action it is; `RuleError`. Never: who has which
role: console and command line, which take requests from people, know that.
"""

from __future__ import annotations

from alarm.decisions.known_rules import KnownRules
from alarm.decisions.requests import CommandRequest
from alarm.decisions.rule_visibility import asker_of
from bus.contracts.command_codes import (
    EMERGENCY_HOURS,
    EMERGENCY_RENEWED,
    NO_ACCOUNT,
    NO_CASE,
    NO_REASON,
    NOT_OWN_PROPOSAL,
    OTHER_TEXT,
    OWN_PROPOSAL,
    PROPOSAL_WAITS,
)
from bus.contracts.commands import WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.policy import PolicySettings
from bus.domain.rule_check import RuleError
from bus.domain.rule_targets import names_somebody, targets_of, text_sha256

MAX_EMERGENCY_TARGETS = 50
_NO_REASON = "this site asks for a reason: say why"


def action_of(command: WatchCommand, policy: PolicySettings) -> str:
    """What it is in the table of states."""
    if command.op != "put":
        return command.op
    if command.emergency_hours:
        return "emergency"
    return "propose" if policy.requires_approval else "put"


def check_action(
    request: CommandRequest[WatchCommand],
    action: str,
    known: KnownRules,
    policy: PolicySettings,
    now_ms: int,
) -> None:
    """Raises `RuleError`."""
    command = request.command
    if policy.requires_reason:
        _check_reason(command, action)
    if action == "propose":
        _check_proposal(command, known)
    elif action == "emergency":
        _check_emergency(request, known, policy, now_ms)


def _check_reason(command: WatchCommand, action: str) -> None:
    """A withdrawal needs no reason."""
    is_text = command.op == "put"
    if action == "withdraw" or (is_text and not names_somebody(command)):
        return
    if not command.reason.strip():
        raise RuleError("reason", _NO_REASON, NO_REASON)
    if is_text and not command.case.strip():
        raise RuleError("case", "this site asks for the number of a case", NO_CASE)


def _check_proposal(command: WatchCommand, known: KnownRules) -> None:
    known_waiting = known.waiting(command.rule_id)
    waiting = known_waiting.proposal() if known_waiting else None
    if waiting is None:
        known.proposals.check_room()
    elif _person(waiting.proposed_by) != _person(command.asked_by):
        raise RuleError(
            "rule_id",
            f"a proposal of {waiting.proposed_by} waits under this id: it is approved, rejected or"
            " withdrawn first",
            PROPOSAL_WAITS,
        )


def _check_emergency(
    request: CommandRequest[WatchCommand], known: KnownRules, policy: PolicySettings, now_ms: int
) -> None:
    command, most = request.command, policy.emergency_hours
    if not 1 <= command.emergency_hours <= most:
        raise RuleError(
            "emergency_hours", f"an emergency rule lasts 1 to {most} hours", EMERGENCY_HOURS
        )
    if not command.reason.strip():
        raise RuleError("reason", "an emergency has a reason: say which", NO_REASON)
    targets = targets_of(command)
    if len(targets) > MAX_EMERGENCY_TARGETS:
        raise RuleError(
            "match", f"an emergency names at most {MAX_EMERGENCY_TARGETS} plates", "value_count"
        )
    before = known.proposals.recent_emergency(
        targets, now_ms, request.command_id, asker_of(command)
    )
    if before is not None:
        raise RuleError(
            "emergency_hours",
            f"the same target had the emergency rule {before.rule_id} within 30 days: propose this"
            " one, so that it is approved",
            EMERGENCY_RENEWED,
        )


def check_settling(command: WatchCommand, action: str, waiting: WatchProposal) -> None:
    """Whether the asker may approve, reject or withdraw just this. Raises `RuleError`."""
    asker = _person(command.asked_by)
    is_own = asker == _person(waiting.proposed_by)
    if action == "withdraw" and not is_own:
        raise RuleError(
            "account", f"{waiting.proposed_by} has proposed it; reject it instead", NOT_OWN_PROPOSAL
        )
    if action != "withdraw" and not command.account.strip():
        raise RuleError("account", "who approves or rejects says as whom", NO_ACCOUNT)
    if action == "approve" and is_own:
        raise RuleError("account", "nobody approves what he has proposed himself", OWN_PROPOSAL)
    if action == "reject" and not command.reason.strip():
        raise RuleError("reason", "say why it is rejected: its author reads it", NO_REASON)
    is_named = action == "approve" or command.text_sha256
    if is_named and command.text_sha256.lower() != text_sha256(waiting.text):
        raise RuleError(
            "text_sha256",
            "the text that waits is not the one you name: read it again and name its SHA-256",
            OTHER_TEXT,
        )


def _person(name: str) -> str:
    return name.strip().casefold()
