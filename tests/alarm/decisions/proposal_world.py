"""A rule machine with a policy, for tests of proposals: topics, and what is known of them."""

from __future__ import annotations

import msgspec

from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.known_rules import KnownRules
from alarm.decisions.machine import Decided, decide
from alarm.decisions.requests import CommandRequest
from alarm.decisions.rule_machine import RuleMachine
from alarm.decisions.rule_states import RuleState
from alarm.rules import RuleSet
from alarm.watchlist_reader import command_of
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.commands import CommandAnswer, WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST, EVENT_COMMAND, STATE_WATCHLIST
from bus.domain.policy import PolicySettings
from bus.domain.rule_targets import text_sha256

NOW_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class ProposalWorld:
    """Invariant: `known` and `answered` are what stands on the topics."""

    def __init__(self, policy: PolicySettings = PolicySettings()) -> None:
        self.policy = policy
        self.machine = RuleMachine(policy)
        self.known, self.answered = KnownRules(), AnsweredCommands()
        self.records: list[KeyedValue] = []
        self.answers: list[CommandAnswer] = []

    def request(self, op: str = "put", offset: int = 7, **fields: object) -> CommandRequest[WatchCommand]:
        usual: dict[str, object] = {
            "rule_id": "r", "op": op, "version": 1, "name": "n", "command_id": f"c{offset}",
            "match": {"plate_number": ["浙A12345"]}, "account": "li", "reason": "stolen", "case": "K-1",
        }  # fmt: skip
        if op == "approve":
            usual |= {"account": "zhao", "text_sha256": self.waiting_sha256(str(fields.get("rule_id", "r")))}
        command = msgspec.convert({**usual, **fields}, WatchCommand)
        value = msgspec.json.encode(command)
        return self.machine.decode(ConsumedRecord(CONTROL_WATCHLIST, 0, offset, 1, b"r", value, ()), "t")

    def waiting_sha256(self, rule_id: str = "r") -> str:
        waiting = self.known.waiting(rule_id)
        proposal = waiting.proposal() if waiting else None
        return text_sha256(proposal.text) if proposal else "0" * 64

    def decide(
        self, asked: CommandRequest[WatchCommand], now_ms: int = NOW_MS, *, is_primary: bool = True
    ) -> Decided:
        return decide(self.machine, asked, self.known, self.answered, now_ms, is_primary=is_primary)

    def record(self, *records: KeyedValue) -> None:
        for one in records:
            self.records.append(one)
            self.known.apply(on_topic(one))

    def answer(self, answer: CommandAnswer | None) -> None:
        if answer is not None:
            self.answers.append(answer)
            value = msgspec.json.encode(answer)
            self.answered.apply(ConsumedRecord(EVENT_COMMAND, 0, 0, 1, b"", value, ()))

    def carry_out(self, asked: CommandRequest[WatchCommand], now_ms: int = NOW_MS) -> CommandAnswer:
        decision = self.decide(asked, now_ms)
        self.record(*decision.records)
        self.answer(decision.answer)
        assert decision.answer is not None
        return decision.answer

    def ask(self, op: str, offset: int = 7, now_ms: int = NOW_MS, **fields: object) -> CommandAnswer:
        return self.carry_out(self.request(op, offset, **fields), now_ms)

    def restarted(self) -> ProposalWorld:
        """Another decider, which knows what stands on the topics."""
        other = ProposalWorld(self.policy)
        other.record(*self.records)
        for answer in self.answers:
            other.answer(answer)
        return other

    def in_force(self) -> dict[str, str]:
        """What readers of rules match: id and name."""
        rules = RuleSet()
        for one in self.records:
            command = command_of(on_topic(one))
            if command is not None:
                rules.apply(command)
        return {rule_id: rule.command.name for rule_id, rule in rules.rules.items()}


def on_topic(one: KeyedValue) -> ConsumedRecord:
    return ConsumedRecord(STATE_WATCHLIST, 0, 0, 1, one.key, one.value, ())


def in_state(state: RuleState, policy: PolicySettings = PolicySettings()) -> ProposalWorld:
    """Rule `r`, a minute ago."""
    world = ProposalWorld(policy)
    approving, before_ms = PolicySettings(), NOW_MS - 60_000
    world.machine = RuleMachine(approving)
    if state is not RuleState.ABSENT:
        world.ask("put", 1, before_ms)
    if state in (RuleState.IN_FORCE, RuleState.CHANGING, RuleState.ENDED):
        world.ask("approve", 2, before_ms + 1)
    if state is RuleState.CHANGING:
        world.ask("put", 3, before_ms + 2, name="changed")
    if state is RuleState.ENDED:
        world.ask("remove", 3, before_ms + 2)
    world.machine = RuleMachine(policy)
    assert world.known.state("r", NOW_MS) is state
    return world
