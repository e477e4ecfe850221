"""The state machine of a rule: a request becomes at most one decision and one answer. Pure.

In: a request, what is known, the time. Out: `CommandDecision`, which changes nothing by itself:
only what was recorded is applied (`KnownRules`, `AnsweredCommands`). Never: I/O, a clock; a second
answer to a command id that says something else.

| state    | put      | remove   | floor   |
|---|---|---|---|
| absent   | in force | refused  | refused |
| in force | in force | ended    | refused |
| ended    | in force | refused  | refused |
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from alarm.decisions.known_rules import AnsweredCommands, KnownRule, KnownRules, RuleState
from alarm.decisions.requests import MAX_ID_CHARACTERS, MAX_REQUEST_BYTES, CommandRequest
from bus.contracts.command_codes import NO_SUCH_RULE, NOT_A_REQUEST, NOT_PRIMARY, STALE
from bus.contracts.commands import ANY_VERSION, CommandAnswer, DecidedRule, WatchCommand
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_demand import check_demand

MAX_REASON_CHARACTERS = 500
MAX_TEXT_CHARACTERS = 1_000  # of a refusal, which repeats what was asked for
_LIMITS = {
    "rule_id": MAX_ID_CHARACTERS, "author": MAX_ID_CHARACTERS, "issuer": MAX_ID_CHARACTERS,
    "account": MAX_ID_CHARACTERS, "session": MAX_ID_CHARACTERS, "case": MAX_ID_CHARACTERS,
    "reason": MAX_REASON_CHARACTERS,
}  # fmt: skip

TRANSITIONS: Mapping[tuple[RuleState, str], RuleState | str] = MappingProxyType({
    (RuleState.ABSENT, "put"): RuleState.IN_FORCE,
    (RuleState.ABSENT, "remove"): NO_SUCH_RULE,
    (RuleState.ABSENT, "floor"): NOT_A_REQUEST,
    (RuleState.IN_FORCE, "put"): RuleState.IN_FORCE,
    (RuleState.IN_FORCE, "remove"): RuleState.ENDED,
    (RuleState.IN_FORCE, "floor"): NOT_A_REQUEST,
    (RuleState.ENDED, "put"): RuleState.IN_FORCE,
    (RuleState.ENDED, "remove"): NO_SUCH_RULE,
    (RuleState.ENDED, "floor"): NOT_A_REQUEST,
})  # fmt: skip
"""A state and what is asked for: the next state, or the reason of the refusal."""
_TEXTS = {
    NO_SUCH_RULE: ("rule_id", "no rule of this id is in force"),
    NOT_A_REQUEST: ("op", "a version floor is written by the site itself; ask for put or remove"),
}


class CommandDecision(NamedTuple):
    """What follows from a request: recorded first, answered then. Neither: it was answered."""

    rule: DecidedRule | None
    answer: CommandAnswer | None


def decide(
    request: CommandRequest,
    known: KnownRules,
    answered: AnsweredCommands,
    now_ms: int,
    *,
    is_primary: bool,
) -> CommandDecision:
    """Decide on one request. At a site whose data are another's it is refused: that one decides."""
    before = answered.get(request.command_id)
    if before is not None:  # what comes again as another record is answered again
        is_same = (before.topic, before.offset) == (request.topic, request.offset)
        return CommandDecision(None, None if is_same else before)
    rule = known.get(request.command.rule_id)
    if rule.command_id and rule.command_id == request.command_id:  # recorded, not yet answered
        return CommandDecision(None, _accepted(request, rule.version, now_ms))
    try:
        if not is_primary:
            raise RuleError("", "this site mirrors another one: ask there", NOT_PRIMARY)
        _check(request, known, now_ms)
    except RuleError as error:
        return CommandDecision(None, _refused(request, rule, error, now_ms))
    version = known.versions.next_version(request.command.rule_id, now_ms)
    decided = _decided(request, version, now_ms)
    return CommandDecision(decided, _accepted(request, version, now_ms))


def _check(request: CommandRequest, known: KnownRules, now_ms: int) -> None:
    """Raises `RuleError`."""
    command, rule = request.command, known.get(request.command.rule_id)
    _check_lengths(request)
    present = rule.version if rule.state is RuleState.IN_FORCE else 0
    if command.seen_version not in (ANY_VERSION, present):
        raise RuleError("seen_version", "the rule was changed since it was read", STALE)
    following = TRANSITIONS[rule.state, command.op]
    if isinstance(following, str):
        field, text = _TEXTS[following]
        raise RuleError(field, text, following)
    if following is RuleState.IN_FORCE:
        check_rule(command, now_ms)
        check_demand(command, known.demand_beside(command.rule_id))


def _check_lengths(request: CommandRequest) -> None:
    if request.size > MAX_REQUEST_BYTES:
        raise RuleError("", f"a command has at most {MAX_REQUEST_BYTES} bytes", "too_large")
    if not request.command.rule_id:
        raise RuleError("rule_id", "a command names a rule", "text_length")
    for field, limit in _LIMITS.items():
        if len(getattr(request.command, field)) > limit:
            raise RuleError(field, f"at most {limit} characters", "text_length")


def _decided(request: CommandRequest, version: int, now_ms: int) -> DecidedRule:
    """Of a removal only who and why: the rest is the rule that ends."""
    command = request.command
    kept = {"rule_id", "op", "author", "issuer", "account", "reason", "case"}
    if command.op == "put":
        kept |= set(WatchCommand.__struct_fields__) - {"session", "seen_version", "signature"}
    fields = {name: getattr(command, name) for name in kept}
    changed = {"version": version, "command_id": request.command_id, "decided_at_ms": now_ms}
    return DecidedRule(**{**fields, **changed})


def _accepted(request: CommandRequest, version: int, now_ms: int) -> CommandAnswer:
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.rule_id, state="accepted", version=version, answered_at_ms=now_ms,
    )  # fmt: skip


def _refused(
    request: CommandRequest, rule: KnownRule, error: RuleError, now_ms: int
) -> CommandAnswer:
    is_stale = error.code == STALE
    return CommandAnswer(
        command_id=request.command_id, topic=request.topic, offset=request.offset,
        key=request.command.rule_id[:MAX_ID_CHARACTERS], state="refused", code=error.code,
        field=error.field[:MAX_ID_CHARACTERS], text=str(error)[:MAX_TEXT_CHARACTERS],
        version=rule.version if is_stale and rule.state is RuleState.IN_FORCE else 0,
        changed_by=rule.decided_by if is_stale else "",
        changed_at_ms=rule.decided_at_ms if is_stale else 0, answered_at_ms=now_ms,
    )  # fmt: skip
