"""The state machine of a rule: a request becomes at most one decision and one answer. Pure.

In: a request, what is known, the site's policy, the time. Out: `CommandDecision`, which changes
nothing by itself: only what was recorded is applied (`KnownRules`, `AnsweredCommands`). Never: I/O,
a clock; a second answer to a command id that says something else.

A `put` is one of three wishes: `put` where the site asks for no approval, `propose` where it does,
`emergency` where it says for how many hours. Of what they record the rule comes first, then what
stands beside rules: who is killed between them completes it (`_completed`).

| state    | put      | propose  | emergency | approve  | reject   | withdraw | remove   | floor   |
|---|---|---|---|---|---|---|---|---|
| absent   | in force | proposed | in force  | refused  | refused  | refused  | refused  | refused |
| proposed | in force | proposed | changing  | in force | ended    | ended    | refused  | refused |
| in force | in force | changing | refused   | refused  | refused  | refused  | ended    | refused |
| changing | in force | changing | refused   | in force | in force | in force | ended    | refused |
| ended    | in force | proposed | in force  | refused  | refused  | refused  | refused  | refused |
"""

from __future__ import annotations

from typing import NamedTuple

from alarm.decisions.approval import check_settling, check_wish, wish_of
from alarm.decisions.known_rules import AnsweredCommands, KnownRule, KnownRules
from alarm.decisions.requests import MAX_ID_CHARACTERS, MAX_REQUEST_BYTES, CommandRequest
from alarm.decisions.rule_records import (
    RuleRecord,
    approved_rule,
    decided_rule,
    emergency_uses,
    proposed,
    settled,
)
from alarm.decisions.rule_states import REFUSALS, TRANSITIONS, RuleState
from bus.contracts.command_codes import NOT_PRIMARY, STALE
from bus.contracts.commands import ANY_VERSION, CommandAnswer
from bus.contracts.proposals import WatchProposal
from bus.domain.policy import PolicySettings
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_demand import check_demand

__all__ = ["TRANSITIONS", "CommandDecision", "decide"]

MAX_REASON_CHARACTERS = 500
MAX_TEXT_CHARACTERS = 1_000  # of a refusal, which repeats what was asked for
_LIMITS = {
    "rule_id": MAX_ID_CHARACTERS, "author": MAX_ID_CHARACTERS, "issuer": MAX_ID_CHARACTERS,
    "account": MAX_ID_CHARACTERS, "session": MAX_ID_CHARACTERS, "case": MAX_ID_CHARACTERS,
    "reason": MAX_REASON_CHARACTERS,
}  # fmt: skip


class CommandDecision(NamedTuple):
    """What follows from a request: recorded first, in this order, answered then. Neither: it was
    answered."""

    records: tuple[RuleRecord, ...]
    answer: CommandAnswer | None


def decide(
    request: CommandRequest,
    known: KnownRules,
    answered: AnsweredCommands,
    now_ms: int,
    *,
    is_primary: bool,
    policy: PolicySettings,
) -> CommandDecision:
    """Decide on one request. At a site whose data are another's it is refused: that one decides."""
    before = answered.get(request.command_id)
    if before is not None:  # what comes again as another record is answered again
        is_same = (before.topic, before.offset) == (request.topic, request.offset)
        return CommandDecision((), None if is_same else before)
    recorded = _completed(request, known, now_ms)
    if recorded is not None:
        return recorded
    try:
        if not is_primary:
            raise RuleError("", "this site mirrors another one: ask there", NOT_PRIMARY)
        return _decided(request, known, now_ms, policy)
    except RuleError as error:
        rule = known.get(request.command.rule_id)
        return CommandDecision((), _refused(request, rule, error, now_ms))


def _completed(
    request: CommandRequest, known: KnownRules, now_ms: int
) -> CommandDecision | None:
    """Of a request that was recorded, and perhaps not to its end, the rest and the answer."""
    command, command_id = request.command, request.command_id
    rule, proposal = known.get(command.rule_id), known.proposals.get(command.rule_id)
    if rule.command_id and rule.command_id == command_id:
        rest: list[RuleRecord] = []
        if command.emergency_hours and command.op == "put":
            rest += emergency_uses(command, known, now_ms, rule.version)
        elif rule.proposal and rule.proposal == proposal.version:
            rest += settled(request, known, now_ms)
        return CommandDecision(tuple(rest), _accepted(request, rule.version, now_ms))
    if proposal.command_id and proposal.command_id == command_id:
        state = "accepted" if proposal.waits is None else "proposed"
        answer = _accepted(request, proposal.version, now_ms, state=state)
        return CommandDecision((), answer)
    return None


def _decided(
    request: CommandRequest, known: KnownRules, now_ms: int, policy: PolicySettings
) -> CommandDecision:
    """Raises `RuleError`."""
    command = request.command
    state, wish = known.state(command.rule_id, now_ms), wish_of(command, policy)
    _check_envelope(request, known, now_ms)
    following = TRANSITIONS[state, wish]
    if isinstance(following, str):
        field, text = REFUSALS[following]
        raise RuleError(field, text, following)
    check_wish(command, wish, known, policy, now_ms)
    version = known.versions.next_version(command.rule_id, now_ms)
    if wish == "propose":
        _check_text_of(request, known, now_ms)
        proposal = proposed(request, known, now_ms)
        answer = _accepted(request, proposal.version, now_ms, state="proposed")
        return CommandDecision((proposal,), answer)
    if wish in ("reject", "withdraw"):
        check_settling(command, wish, _waiting(known, command.rule_id))
        ends = settled(request, known, now_ms)
        return CommandDecision(tuple(ends), _accepted(request, ends[0].version, now_ms))
    if wish == "approve":
        waiting = _waiting(known, command.rule_id)
        check_settling(command, wish, waiting)
        rule = approved_rule(waiting, request, version, now_ms)
        check_rule(waiting.text, now_ms)
        check_demand(waiting.text, known.demand_beside(command.rule_id, now_ms))
    else:
        if wish != "remove":
            _check_text_of(request, known, now_ms)
        rule = decided_rule(request, known, version, now_ms)
    beside = (
        emergency_uses(command, known, now_ms, version) if wish == "emergency"
        else settled(request, known, now_ms)
    )  # fmt: skip
    return CommandDecision((rule, *beside), _accepted(request, version, now_ms))


def _waiting(known: KnownRules, rule_id: str) -> WatchProposal:
    """Of a state in which something does."""
    waiting = known.proposals.get(rule_id).proposal()
    assert waiting is not None
    return waiting


def _check_text_of(request: CommandRequest, known: KnownRules, now_ms: int) -> None:
    check_rule(request.command, now_ms)
    check_demand(request.command, known.demand_beside(request.command.rule_id, now_ms))


def _check_envelope(request: CommandRequest, known: KnownRules, now_ms: int) -> None:
    """Raises `RuleError`."""
    command, rule = request.command, known.get(request.command.rule_id)
    if request.size > MAX_REQUEST_BYTES:
        raise RuleError("", f"a command has at most {MAX_REQUEST_BYTES} bytes", "too_large")
    if not command.rule_id:
        raise RuleError("rule_id", "a command names a rule", "text_length")
    for field, limit in _LIMITS.items():
        if len(getattr(command, field)) > limit:
            raise RuleError(field, f"at most {limit} characters", "text_length")
    present = rule.version if rule.is_in_force(now_ms) else 0
    if command.seen_version not in (ANY_VERSION, present):
        raise RuleError("seen_version", "the rule was changed since it was read", STALE)


def _accepted(
    request: CommandRequest, version: int, now_ms: int, *, state: str = "accepted"
) -> CommandAnswer:
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.rule_id, state="proposed" if state == "proposed" else "accepted",
        version=version, answered_at_ms=now_ms,
    )  # fmt: skip


def _refused(
    request: CommandRequest, rule: KnownRule, error: RuleError, now_ms: int
) -> CommandAnswer:
    is_stale = error.code == STALE
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.rule_id[:MAX_ID_CHARACTERS], state="refused", code=error.code,
        field=error.field[:MAX_ID_CHARACTERS], text=str(error)[:MAX_TEXT_CHARACTERS],
        version=rule.version if is_stale and rule.is_in_force(now_ms) else 0,
        changed_by=rule.decided_by if is_stale else "",
        changed_at_ms=rule.decided_at_ms if is_stale else 0, answered_at_ms=now_ms,
    )  # fmt: skip
