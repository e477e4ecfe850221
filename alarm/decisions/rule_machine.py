"""The state machine of a rule. Pure; how requests are decided on is `machine`'s.

A `put` is one of three actions: `put` where the site asks for no approval, `propose` where it does,
`emergency` where it says for how many hours.

| state    | put      | propose  | emergency | approve  | reject   | withdraw | remove  | floor   |
|---|---|---|---|---|---|---|---|---|
| absent   | in force | proposed | in force  | refused  | refused  | refused  | refused | refused |
| proposed | in force | proposed | changing  | in force | ended    | ended    | refused | refused |
| in force | in force | changing | refused   | refused  | refused  | refused  | ended   | refused |
| changing | in force | changing | refused   | in force | in force | in force | ended   | refused |
| ended    | in force | proposed | in force  | refused  | refused  | refused  | refused | refused |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from alarm.decisions.approval import action_of, check_action, check_rule_settling
from alarm.decisions.known_rules import KnownRules
from alarm.decisions.machine import DecidedState, NewestDecision
from alarm.decisions.referred_lists import check_lists
from alarm.decisions.requests import (
    MAX_ID_CHARACTERS,
    CommandRequest,
    check_lengths,
    decode_request,
)
from alarm.decisions.rule_records import (
    RuleRecord,
    approved_rule,
    decided_rule,
    emergency_targets,
    proposed,
    recorded,
    settled,
)
from alarm.decisions.rule_states import REFUSALS, TRANSITIONS, RuleState
from alarm.decisions.rule_visibility import check_visibility, is_hidden
from bus.client.model import ConsumedRecord
from bus.contracts.commands import WatchCommand
from bus.contracts.plate_lists import ListRecord
from bus.contracts.proposals import WatchProposal
from bus.contracts.topics import CONTROL_WATCHLIST, STATE_LISTS, STATE_WATCHLIST
from bus.domain.command_error import check_length
from bus.domain.policy import PolicySettings
from bus.domain.rule_check import RuleError, check_rule
from bus.domain.rule_demand import RuleDemand, check_demand, demand_of

__all__ = ["TRANSITIONS", "RuleMachine", "RuleState"]

_decode = msgspec.json.Decoder(WatchCommand).decode


class RuleMachine:
    """See `DecisionMachine`."""

    requests_topic = CONTROL_WATCHLIST
    state_topic = STATE_WATCHLIST
    asked_topics: tuple[str, ...] = (STATE_LISTS,)

    def __init__(
        self, policy: PolicySettings,
        lists_in_force: Callable[[], Mapping[str, ListRecord]] = dict,
    ) -> None:  # fmt: skip
        """`lists_in_force`: by id, as they are when a request is decided on."""
        self._policy = policy
        self._lists_in_force = lists_in_force

    def make_state(self) -> KnownRules:
        """See `DecisionMachine.make_state`."""
        return KnownRules()

    def decode(self, record: ConsumedRecord, topic_id: str) -> CommandRequest[WatchCommand]:
        """See `decode_request`."""
        return decode_request(record, topic_id, _decode)

    def names(self, request: CommandRequest[WatchCommand]) -> Iterable[str]:
        """The rule; what costs more than a look-up is judged beside all that are in force, and an
        emergency beside those before it."""
        command = request.command
        yield f"rule {command.rule_id}"
        if command.op == "approve" or demand_of(command) != RuleDemand():
            yield "demand"
        if action_of(command, self._policy) == "emergency":
            yield "emergency"

    def newest(
        self, request: CommandRequest[WatchCommand], state: KnownRules, now_ms: int
    ) -> NewestDecision:
        """See `DecisionMachine.newest`. Of a request that made a proposal or ended one, that; of a
        rule that is hidden from who asks, as of one that was never there."""
        rule_id = request.command.rule_id
        rule, proposal = state.get(rule_id), state.proposals.get(rule_id)
        is_own = request.command_id in (rule.command_id, proposal.command_id)
        if not is_own and is_hidden(request.command, state):
            return NewestDecision(0, "", "", 0, is_in_force=False)
        if proposal.command_id == request.command_id != rule.command_id:
            return NewestDecision(
                proposal.version, proposal.command_id, "", 0, is_in_force=False,
                waits=proposal.waits is not None,
            )  # fmt: skip
        return NewestDecision(
            rule.version, rule.command_id, rule.decided_by, rule.decided_at_ms,
            is_in_force=rule.is_in_force(now_ms),
        )  # fmt: skip

    def follow(
        self, request: CommandRequest[WatchCommand], state: KnownRules, now_ms: int
    ) -> DecidedState:
        """See `DecisionMachine.follow`."""
        command = request.command
        _check_lengths(request)
        action = action_of(command, self._policy)
        check_visibility(command, state, now_ms)
        following = TRANSITIONS[state.state(command.rule_id, now_ms), action]
        if isinstance(following, str):
            field, text = REFUSALS[following]
            raise RuleError(field, text, following)
        check_action(request, action, state, self._policy, now_ms)
        if action in ("put", "propose", "emergency"):
            self._check_text(command, state, now_ms)
        if action == "propose":
            proposal = proposed(request, state, now_ms)
            return DecidedState(proposal.version, (recorded(proposal),), waits=True)
        if action in ("reject", "withdraw"):
            check_rule_settling(command, action, _waiting(state, command.rule_id))
            [end] = settled(request, state, now_ms)
            return DecidedState(end.version, (recorded(end),))
        return self._with_rule(request, action, state, now_ms)

    def _with_rule(
        self, request: CommandRequest[WatchCommand], action: str, state: KnownRules, now_ms: int
    ) -> DecidedState:
        """Of what changes what is in force. Raises `RuleError`."""
        command = request.command
        version = state.versions.next_version(command.rule_id, now_ms)
        if action == "approve":
            waiting = _waiting(state, command.rule_id)
            check_rule_settling(command, action, waiting)
            self._check_text(waiting.text, state, now_ms)
            rule = approved_rule(waiting, request, version, now_ms)
        else:
            rule = decided_rule(request, state, version, now_ms)
        records: list[RuleRecord] = [rule, *settled(request, state, now_ms)]
        if action == "emergency":
            records = [*emergency_targets(request, state, now_ms), rule]
        return DecidedState(version, tuple(map(recorded, records)))

    def _check_text(self, command: WatchCommand, state: KnownRules, now_ms: int) -> None:
        check_rule(command, now_ms)
        check_demand(command, state.demand_beside(command.rule_id, now_ms))
        check_lists(command.where, self._lists_in_force())


def _waiting(state: KnownRules, rule_id: str) -> WatchProposal:
    """In a state in which something does."""
    waiting = state.proposals.get(rule_id).proposal()
    assert waiting is not None
    return waiting


def _check_lengths(request: CommandRequest[WatchCommand]) -> None:
    check_lengths(request)
    if not request.command.rule_id:
        raise RuleError("rule_id", "a command names a rule", "text_length")
    for field in ("rule_id", "author", "text_sha256"):
        check_length(field, getattr(request.command, field), MAX_ID_CHARACTERS)
