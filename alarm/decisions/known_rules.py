"""What has been decided on rules so far. Pure.

In: records of `state.watchlist`. Out: of each rule its newest decision without its text, and what
it costs. Never: a rule's conditions: 100,000 rules are some megabytes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from alarm.decisions.known_proposals import KnownProposal, KnownProposals
from alarm.decisions.rule_states import RuleState
from bus.client.model import ConsumedRecord
from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import (
    BesideRules,
    WatchProposal,
    beside_rules,
    id_of_proposal_key,
)
from bus.domain.rule_demand import RuleDemand, demand_of
from bus.domain.table_versions import TableVersions

_decode_rule = msgspec.json.Decoder(DecidedRule).decode


class KnownRule(NamedTuple):
    """The newest decision on a rule. `ends_at_ms`: of an emergency rule, which ends by itself;
    `proposal`: the version of what it settled; `visible_to`: the units that see it, also once it
    has ended."""

    state: RuleState
    version: int
    command_id: str
    decided_by: str
    decided_at_ms: int
    ends_at_ms: int = 0
    proposal: int = 0
    visible_to: tuple[str, ...] = ()

    def is_in_force(self, now_ms: int) -> bool:
        """Of a usual rule until it is removed, also where its time is over."""
        is_over = 0 < self.ends_at_ms <= now_ms
        return self.state is RuleState.IN_FORCE and not is_over


NO_RULE = KnownRule(RuleState.ABSENT, 0, "", "", 0)


class KnownRules:
    """Invariant: `_rules` has the decision with the greatest version of each rule id in
    `versions`; `_demands` what those in force cost, if anything, and `_demand` all of it;
    `_emergencies` which of these end by themselves."""

    def __init__(self) -> None:
        self.versions = TableVersions()
        self.proposals = KnownProposals()
        self._rules: dict[str, KnownRule] = {}
        self._demands: dict[str, RuleDemand] = {}
        self._demand = RuleDemand()
        self._emergencies: set[str] = set()

    def get(self, rule_id: str) -> KnownRule:
        """`NO_RULE` of one that was never decided on, or was forgotten."""
        return self._rules.get(rule_id, NO_RULE)

    def state(self, rule_id: str, now_ms: int) -> RuleState:
        """With what is proposed."""
        rule, proposal = self.get(rule_id), self.proposals.get(rule_id)
        if self.waiting(rule_id) is not None:
            return RuleState.CHANGING if rule.is_in_force(now_ms) else RuleState.PROPOSED
        if rule.is_in_force(now_ms):
            return RuleState.IN_FORCE
        is_new = rule is NO_RULE and not proposal.version
        return RuleState.ABSENT if is_new else RuleState.ENDED

    def waiting(self, rule_id: str) -> KnownProposal | None:
        """What waits under the rule's id. What the newest decision on the rule has settled does
        not, though its end may have been lost."""
        proposal = self.proposals.get(rule_id)
        is_settled = self.get(rule_id).proposal == proposal.version
        return None if proposal.waits is None or is_settled else proposal

    def all_waiting(self) -> list[WatchProposal]:
        """Oldest first."""
        found = [one for known in self.proposals.newest() if (one := known.proposal())]
        waiting = [one for one in found if self.waiting(one.rule_id) is not None]
        return sorted(waiting, key=lambda one: (one.version, one.rule_id))

    def apply(self, record: ConsumedRecord) -> None:
        """The next one of `state.watchlist`; what is not ours changes nothing."""
        beside = beside_rules(record.value)
        if beside is not None:
            self.on_beside_rules(beside)
            return
        if record.value is None:
            rule_id = (record.key or b"").decode("utf-8", "replace")
            self.proposals.forget(id_of_proposal_key(rule_id))
            if self.versions.forget(rule_id):
                self._rules.pop(rule_id, None)
                self._note_demand(rule_id, RuleDemand())
            return
        try:
            rule = _decode_rule(record.value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        self.on_decided(rule)

    def on_beside_rules(self, value: BesideRules) -> None:
        """A proposal, its end, or an emergency's target."""
        self.proposals.apply(value)

    def on_decided(self, rule: DecidedRule) -> None:
        """One that is newer than what is known changes it."""
        if rule.op == "floor":
            self.versions.raise_floor(rule.version)
            self.proposals.raise_floor(rule.version)
        elif self.versions.accept(rule.rule_id, rule.version, is_removal=rule.op == "remove"):
            state = RuleState.IN_FORCE if rule.op == "put" else RuleState.ENDED
            self._rules[rule.rule_id] = KnownRule(
                state, rule.version, rule.command_id, rule.decided_by,
                rule.decided_at_ms or rule.version,
                rule.valid_until_ms if rule.emergency_hours else 0, rule.proposal,
                tuple(rule.visible_to),
            )  # fmt: skip
            self._note_demand(rule.rule_id, demand_of(rule))

    def demand_beside(self, rule_id: str, now_ms: int) -> RuleDemand:
        """What all rules in force but this one cost; one whose time is over costs until its end,
        which of an emergency rule is that time."""
        ended = [
            one for one in self._emergencies
            if one != rule_id and not self.get(one).is_in_force(now_ms)
        ]  # fmt: skip
        found = self._beside(rule_id)
        for one in ended:
            found = found.minus(self._demands[one])
        return found

    def _beside(self, rule_id: str) -> RuleDemand:
        return self._demand.minus(self._demands.get(rule_id, RuleDemand()))

    def _note_demand(self, rule_id: str, own: RuleDemand) -> None:
        self._demand = self._beside(rule_id).plus(own)
        self._demands.pop(rule_id, None)
        self._emergencies.discard(rule_id)
        if own != RuleDemand():
            self._demands[rule_id] = own
            if self.get(rule_id).ends_at_ms:
                self._emergencies.add(rule_id)
