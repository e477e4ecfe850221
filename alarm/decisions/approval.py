"""What the site's policy asks of a request: approval, reasons, emergencies. Pure.

In: a request, the policy, what is known. Out: which action it is; `RuleError`. Never: who has which
role: console and command line, which take requests from people, know that.
"""

from __future__ import annotations

from alarm.decisions.known_rules import KnownRules
from alarm.decisions.requests import CommandRequest
from alarm.decisions.rule_visibility import asker_of
from alarm.decisions.settling import ASKS_REASON, check_own_proposal, check_settling
from bus.contracts.command_codes import (
    EMERGENCY_HOURS,
    EMERGENCY_RENEWED,
    NO_CASE,
    NO_REASON,
)
from bus.contracts.commands import WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.policy import PolicySettings
from bus.domain.rule_check import RuleError
from bus.domain.rule_targets import names_somebody, targets_of, text_sha256

MAX_EMERGENCY_TARGETS = 50


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
    """Raises `CommandError`."""
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
        raise RuleError("reason", ASKS_REASON, NO_REASON)
    if is_text and not command.case.strip():
        raise RuleError("case", "this site asks for the number of a case", NO_CASE)


def _check_proposal(command: WatchCommand, known: KnownRules) -> None:
    known_waiting = known.waiting(command.rule_id)
    waiting = known_waiting.proposal() if known_waiting else None
    if waiting is None:
        known.proposals.check_room()
    else:
        check_own_proposal("rule_id", waiting.proposed_by, command.asked_by)


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


def check_rule_settling(command: WatchCommand, action: str, waiting: WatchProposal) -> None:
    """Whether the asker may approve, reject or withdraw just this. Raises `CommandError`."""
    check_settling(
        command, action, waiting.proposed_by, text_sha256(waiting.text),
        "the text that waits is not the one you name",
    )  # fmt: skip
