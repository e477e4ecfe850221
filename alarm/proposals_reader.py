"""What waits for an approval, read from `state.watchlist` once: for command line and backup."""

from __future__ import annotations

from typing import NamedTuple

from alarm.decisions.known_rules import KnownRules
from alarm.rules import RuleSet
from alarm.watchlist_reader import command_of
from bus.client.kafka.compacted_topic import CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.model import ConsumedRecord
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.commands import WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.contracts.topics import STATE_WATCHLIST
from bus.domain.rule_check import is_in_force, is_over
from bus.settings import BusSettings


class WaitingProposal(NamedTuple):
    """A proposal, and the text in force that it would replace."""

    proposal: WatchProposal
    in_force: WatchCommand | None


class _RulesAndProposals:
    """Both, of one reading."""

    def __init__(self) -> None:
        self.known, self.rules = KnownRules(), RuleSet()

    def apply(self, record: ConsumedRecord) -> None:
        """The next one."""
        self.known.apply(record)
        command = command_of(record)
        if command is not None:
            self.rules.apply(command)

    def waiting(self, now_ms: int) -> list[WaitingProposal]:
        """With the text that each would replace."""
        found = []
        for one in self.known.all_waiting():
            rule = self.rules.rules.get(one.rule_id)
            present = rule.command if rule and is_in_force(rule.command, now_ms) else None
            found.append(WaitingProposal(one, present))
        return found

    def in_force(self, now_ms: int) -> list[WatchCommand]:
        """Without those whose time is over."""
        every = (rule.command for rule in self.rules.rules.values())
        return [one for one in every if is_in_force(one, now_ms) and not is_over(one, now_ms)]


def read_rules_and_proposals(
    bus: BusSettings, client_id: str, now_ms: int, timeout_s: float
) -> tuple[list[WatchCommand], list[WatchProposal]]:
    """Rules in force by id, and what waits, oldest first. Raises `CatchUpTimeout`, BusError."""
    found = _read(bus, client_id, timeout_s)
    rules = sorted(found.in_force(now_ms), key=lambda one: one.rule_id)
    return rules, [one.proposal for one in found.waiting(now_ms)]


def read_proposals(
    bus: BusSettings, client_id: str, now_ms: int, timeout_s: float
) -> list[WaitingProposal]:
    """Oldest first. Raises `CatchUpTimeout`, BusError."""
    return _read(bus, client_id, timeout_s).waiting(now_ms)


def read_known(bus: BusSettings, client_id: str, timeout_s: float) -> KnownRules:
    """What the decider knows. Raises `CatchUpTimeout`, BusError."""
    return _read(bus, client_id, timeout_s).known


def _read(bus: BusSettings, client_id: str, timeout_s: float) -> _RulesAndProposals:
    with CompactedTopic(
        bus, STATE_WATCHLIST, _RulesAndProposals, client_id=client_id,
        leaders=PartitionLeaders(bus, f"{client_id}-ends"), overrides=FOLLOWS_LEADERS,
        timeout_s=timeout_s,
    ) as topic:  # fmt: skip
        topic.catch_up()
        return topic.state
