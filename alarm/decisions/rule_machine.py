"""The state machine of a rule. Pure; how requests are decided on is `machine`'s.

| state    | put      | remove   | floor   |
|---|---|---|---|
| absent   | in force | refused  | refused |
| in force | in force | ended    | refused |
| ended    | in force | refused  | refused |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from alarm.decisions.known_rules import KnownRules, RuleState
from alarm.decisions.machine import DecidedState, NewestDecision
from alarm.decisions.requests import (
    CommandRequest,
    check_length,
    check_lengths,
    decode_request,
)
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.command_codes import NO_SUCH_RULE, NOT_A_REQUEST
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST, STATE_WATCHLIST
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_demand import RuleDemand, check_demand, demand_of

_decode = msgspec.json.Decoder(WatchCommand).decode

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


class RuleMachine:
    """See `DecisionMachine`."""

    requests_topic = CONTROL_WATCHLIST
    state_topic = STATE_WATCHLIST

    def make_state(self) -> KnownRules:
        """See `DecisionMachine.make_state`."""
        return KnownRules()

    def decode(self, record: ConsumedRecord, topic_id: str) -> CommandRequest[WatchCommand]:
        """See `decode_request`."""
        return decode_request(record, topic_id, _decode)

    def names(self, request: CommandRequest[WatchCommand]) -> Iterable[str]:
        """The rule; what costs more than a look-up is judged beside all that are in force."""
        yield f"rule {request.command.rule_id}"
        if demand_of(request.command) != RuleDemand():
            yield "demand"

    def newest(self, request: CommandRequest[WatchCommand], state: KnownRules) -> NewestDecision:
        """See `DecisionMachine.newest`."""
        rule = state.get(request.command.rule_id)
        return NewestDecision(
            rule.version, rule.command_id, rule.decided_by, rule.decided_at_ms,
            is_in_force=rule.state is RuleState.IN_FORCE,
        )  # fmt: skip

    def follow(
        self, request: CommandRequest[WatchCommand], state: KnownRules, now_ms: int
    ) -> DecidedState:
        """See `DecisionMachine.follow`."""
        command = request.command
        check_lengths(request)
        if not command.rule_id:
            raise RuleError("rule_id", "a command names a rule", "text_length")
        check_length("rule_id", command.rule_id)
        check_length("author", command.author)
        following = TRANSITIONS[state.get(command.rule_id).state, command.op]
        if isinstance(following, str):
            field, text = _TEXTS[following]
            raise RuleError(field, text, following)
        if following is RuleState.IN_FORCE:
            check_rule(command, now_ms)
            check_demand(command, state.demand_beside(command.rule_id))
        version = state.versions.next_version(command.rule_id, now_ms)
        rule = _decided(request, version, now_ms)
        return DecidedState(version, (recorded_rule(rule),))


def recorded_rule(rule: DecidedRule) -> KeyedValue:
    """As it stands on `state.watchlist`."""
    return KeyedValue(rule.rule_id.encode(), msgspec.json.encode(rule))


def _decided(
    request: CommandRequest[WatchCommand], version: int, now_ms: int
) -> DecidedRule:
    """Of a removal only who and why: the rest is the rule that ends."""
    command = request.command
    kept = {"rule_id", "op", "author", "issuer", "account", "reason", "case"}
    if command.op == "put":
        kept |= set(WatchCommand.__struct_fields__) - {"session", "seen_version", "signature"}
    fields = {name: getattr(command, name) for name in kept}
    changed = {"version": version, "command_id": request.command_id, "decided_at_ms": now_ms}
    return DecidedRule(**{**fields, **changed})
