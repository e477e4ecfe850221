"""What waits for an approval, as `state.watchlist` tells it (pure).

In: proposals, their ends and decisions on rules, in any order. Out: what waits, oldest first.
Never: more than the site's decider takes (`alarm.decisions.known_proposals`); a proposal that the
newest decision on its rule has settled, though its end may have been lost.
"""

from __future__ import annotations

from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import SettledProposal, WatchProposal
from bus.domain.table_versions import TableVersions


class ProposalTable:
    """Invariant: `_waiting` has of each rule id in `_versions` its proposal, unless what has the
    greatest version is the end of one, or a decision has settled it."""

    def __init__(self) -> None:
        self._versions = TableVersions()
        self._waiting: dict[str, WatchProposal] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def apply(self, value: WatchProposal | SettledProposal, rule: DecidedRule | None) -> bool:
        """Take one; `rule`: the newest decision on its rule. False when nothing that is shown
        changes."""
        is_end = isinstance(value, SettledProposal)
        if not self._versions.accept(value.rule_id, value.version, is_removal=is_end):
            return False
        if isinstance(value, WatchProposal) and not _has_settled(rule, value):
            self._waiting[value.rule_id] = value
        else:
            self._waiting.pop(value.rule_id, None)
        return True

    def on_rule(self, rule: DecidedRule) -> None:
        """A decision that changes a rule, or a floor: what is older waits no longer."""
        if rule.op == "floor":
            self._versions.raise_floor(rule.version)
            for one in [one for one in self._waiting.values() if one.version <= rule.version]:
                del self._waiting[one.rule_id]
        waiting = self._waiting.get(rule.rule_id)
        if waiting is not None and _has_settled(rule, waiting):
            del self._waiting[rule.rule_id]

    def get(self, rule_id: str) -> WatchProposal | None:
        """What waits under a rule's id."""
        return self._waiting.get(rule_id)

    def waiting(self) -> list[WatchProposal]:
        """Oldest first."""
        return sorted(self._waiting.values(), key=lambda one: (one.version, one.rule_id))


def _has_settled(rule: DecidedRule | None, proposal: WatchProposal) -> bool:
    return rule is not None and rule.proposal == proposal.version
