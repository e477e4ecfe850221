"""What has been decided on rules so far. Pure.

In: records of `state.watchlist`. Out: of each rule its newest decision without its text, and what
it costs. Never: a rule's conditions: 100,000 rules are some megabytes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.commands import DecidedRule
from bus.domain.rule_demand import RuleDemand, demand_of
from bus.domain.table_versions import TableVersions

_decode_rule = msgspec.json.Decoder(DecidedRule).decode


class RuleState(Enum):
    """Where a rule is in its life."""

    ABSENT = "absent"
    IN_FORCE = "in force"
    ENDED = "ended"


class KnownRule(NamedTuple):
    """The newest decision on a rule."""

    state: RuleState
    version: int
    command_id: str
    decided_by: str
    decided_at_ms: int


NO_RULE = KnownRule(RuleState.ABSENT, 0, "", "", 0)


class KnownRules:
    """Invariant: `_rules` has the decision with the greatest version of each rule id in
    `versions`; `_demands` what those in force cost, if anything, and `_demand` all of it."""

    def __init__(self) -> None:
        self.versions = TableVersions()
        self._rules: dict[str, KnownRule] = {}
        self._demands: dict[str, RuleDemand] = {}
        self._demand = RuleDemand()

    def get(self, rule_id: str) -> KnownRule:
        """`NO_RULE` of one that was never decided on, or was forgotten."""
        return self._rules.get(rule_id, NO_RULE)

    def apply(self, record: ConsumedRecord) -> None:
        """The next one of `state.watchlist`; what is not ours changes nothing."""
        if record.value is None:
            rule_id = (record.key or b"").decode("utf-8", "replace")
            if self.versions.forget(rule_id):
                self._rules.pop(rule_id, None)
                self._note_demand(rule_id, RuleDemand())
            return
        try:
            rule = _decode_rule(record.value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        self.on_decided(rule)

    def on_decided(self, rule: DecidedRule) -> None:
        """One that is newer than what is known changes it."""
        if rule.op == "floor":
            self.versions.raise_floor(rule.version)
        elif self.versions.accept(rule.rule_id, rule.version, is_removal=rule.op == "remove"):
            state = RuleState.IN_FORCE if rule.op == "put" else RuleState.ENDED
            self._rules[rule.rule_id] = KnownRule(
                state, rule.version, rule.command_id, rule.decided_by,
                rule.decided_at_ms or rule.version,
            )  # fmt: skip
            self._note_demand(rule.rule_id, demand_of(rule))

    def demand_beside(self, rule_id: str) -> RuleDemand:
        """What all rules in force but this one cost; one whose time is over costs until its end."""
        return self._demand.minus(self._demands.get(rule_id, RuleDemand()))

    def _note_demand(self, rule_id: str, own: RuleDemand) -> None:
        self._demand = self.demand_beside(rule_id).plus(own)
        self._demands.pop(rule_id, None)
        if own != RuleDemand():
            self._demands[rule_id] = own
