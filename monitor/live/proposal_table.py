"""What waits for an approval, as `state.watchlist` tells it (pure).

In: proposals and their ends, in any order. Out: what waits beside the rules in force, oldest first.
Never: more than the site's decider takes (`alarm.decisions.known_proposals`); a proposal that the
rule in force has settled.
"""

from __future__ import annotations

from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import BesideRules, EmergencyUse, SettledProposal, WatchProposal
from bus.domain.table_versions import TableVersions
from monitor.live.rule_table import RuleTable


class ProposalTable:
    """Invariant: `_waiting` has of each rule id in `_versions` its proposal, unless what has the
    greatest version is the end of one."""

    def __init__(self) -> None:
        self._versions = TableVersions()
        self._waiting: dict[str, WatchProposal] = {}

    def apply(self, value: BesideRules) -> bool:
        """Take one; False when it changes nothing that is shown."""
        if isinstance(value, EmergencyUse):
            return False
        is_end = isinstance(value, SettledProposal)
        if not self._versions.accept(value.rule_id, value.version, is_removal=is_end):
            return False
        if isinstance(value, WatchProposal):
            self._waiting[value.rule_id] = value
        else:
            self._waiting.pop(value.rule_id, None)
        return True

    def raise_floor(self, version: int) -> None:
        """What is older waits no longer."""
        self._versions.raise_floor(version)
        for one in [one for one in self._waiting.values() if one.version <= version]:
            del self._waiting[one.rule_id]

    def waiting(self, rules: RuleTable) -> list[WatchProposal]:
        """Oldest first. The end of one that a decision on its rule has settled may be missing."""
        found = [
            one for one in self._waiting.values()
            if not _has_settled(rules.get(one.rule_id), one)
        ]  # fmt: skip
        return sorted(found, key=lambda one: (one.version, one.rule_id))

    def get(self, rule_id: str, rules: RuleTable) -> WatchProposal | None:
        """What waits under a rule's id."""
        found = self._waiting.get(rule_id)
        is_settled = found is None or _has_settled(rules.get(rule_id), found)
        return None if is_settled else found

    def count(self, rules: RuleTable) -> int:
        """How many wait."""
        return len(self.waiting(rules))


def _has_settled(rule: DecidedRule | None, proposal: WatchProposal) -> bool:
    return rule is not None and rule.proposal == proposal.version
