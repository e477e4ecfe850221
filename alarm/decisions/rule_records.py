"""What a decision on a rule puts on `state.watchlist`. Pure.

In: a request that was checked, what is known, the time. Out: structs of the topic. Never: a
session or a signature; another text than the one that was asked for.
"""

from __future__ import annotations

import msgspec

from alarm.decisions.known_rules import KnownRules
from alarm.decisions.requests import CommandRequest
from alarm.decisions.settling import OUTCOMES
from bus.client.model import KeyedValue
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import (
    BesideRules,
    EmergencyTarget,
    SettledProposal,
    WatchProposal,
    key_of,
)
from bus.domain.rule_targets import targets_of

RuleRecord = DecidedRule | BesideRules

HOUR_MS = 3_600_000
EMERGENCY_PAUSE_MS = 30 * 24 * HOUR_MS
"""From the beginning of an emergency rule: so long its targets have no other one."""
_OF_ITS_REQUEST = frozenset(
    {"session", "seen_version", "signature", "text_sha256", "op", "unit"}
)


def recorded(one: RuleRecord) -> KeyedValue:
    """As it stands on the topic."""
    key = one.rule_id if isinstance(one, DecidedRule) else key_of(one)
    return KeyedValue(key.encode(), msgspec.json.encode(one))


def decided_rule(
    request: CommandRequest[WatchCommand], known: KnownRules, version: int, now_ms: int
) -> DecidedRule:
    """Of a removal only who and why, and who sees it: the rest is the rule that ends. An emergency
    rule has its end, and leaves what is proposed waiting. A proposal that the decision before has
    settled stays named where nothing waits: its own end may have been lost."""
    command = request.command
    kept = {"rule_id", "author", "issuer", "account", "reason", "case"}
    waiting = known.waiting(command.rule_id)
    before = known.get(command.rule_id)
    changed: dict[str, object] = {"op": "remove", "visible_to": list(before.visible_to)}
    if command.op == "put":
        kept = set(WatchCommand.__struct_fields__) - _OF_ITS_REQUEST
        changed = {"op": "put"}
        if command.emergency_hours:
            end_ms = now_ms + command.emergency_hours * HOUR_MS
            changed["valid_until_ms"] = min(command.valid_until_ms or end_ms, end_ms)
    fields = {name: getattr(command, name) for name in kept}
    if waiting is not None and not (command.op == "put" and command.emergency_hours):
        changed["proposal"] = waiting.version
    elif waiting is None:
        changed["proposal"] = before.proposal
    changed |= {"version": version, "command_id": request.command_id, "decided_at_ms": now_ms}
    return DecidedRule(**{**fields, **changed})


def approved_rule(
    proposal: WatchProposal, request: CommandRequest[WatchCommand], version: int, now_ms: int
) -> DecidedRule:
    """The text as it was proposed, in its author's name, and who approved it and why."""
    text, by_whom = proposal.text, request.command
    fields = {
        name: getattr(text, name)
        for name in WatchCommand.__struct_fields__ if name not in _OF_ITS_REQUEST
    }  # fmt: skip
    changed: dict[str, object] = {
        "op": "put", "version": version, "command_id": request.command_id,
        "decided_at_ms": now_ms, "proposal": proposal.version, "approved_by": by_whom.account,
        "approval_reason": by_whom.reason,
    }  # fmt: skip
    return DecidedRule(**{**fields, **changed})


def proposed(
    request: CommandRequest[WatchCommand], known: KnownRules, now_ms: int
) -> WatchProposal:
    """What waits from now on."""
    command = request.command
    return WatchProposal(
        rule_id=command.rule_id,
        version=known.proposals.next_version(command.rule_id, now_ms),
        text=msgspec.structs.replace(
            command, session="", signature="", text_sha256="", unit=""
        ),
        decided_at_ms=now_ms,
        command_id=request.command_id,
    )


def settled(
    request: CommandRequest[WatchCommand], known: KnownRules, now_ms: int
) -> list[SettledProposal]:
    """The end of what waits under the rule's id, if anything does."""
    command, waiting = request.command, known.waiting(request.command.rule_id)
    if waiting is None:
        return []
    return [SettledProposal(
        rule_id=command.rule_id,
        version=known.proposals.next_version(command.rule_id, now_ms),
        outcome=OUTCOMES.get(command.op, "superseded"),
        proposal=waiting.version,
        decided_at_ms=now_ms,
        command_id=request.command_id,
        decided_by=command.asked_by,
        reason=command.reason,
    )]  # fmt: skip


def emergency_targets(
    request: CommandRequest[WatchCommand], known: KnownRules, now_ms: int
) -> list[EmergencyTarget]:
    """One per target. They stand before their rule: where they are and the rule is not, the same
    request puts both there."""
    return [
        EmergencyTarget(
            target=target, version=known.proposals.next_emergency_version(target, now_ms),
            rule_id=request.command.rule_id, command_id=request.command_id,
            until_ms=now_ms + EMERGENCY_PAUSE_MS, visible_to=request.command.visible_to,
        )
        for target in sorted(targets_of(request.command))
    ]  # fmt: skip
