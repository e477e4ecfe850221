"""The live state as one person may see it: rules, proposals, alarms. Pure.

In: the state of all, who looks. Out: of what some units alone see, only what his unit sees. Never:
another way from a page or a route to rules, proposals and alarms of the live state (a test reads
the code for that).
"""

from __future__ import annotations

from collections import Counter

import msgspec

from bus.contracts.alarms import Alarm
from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import WatchProposal
from bus.domain.visibility import Viewer, may_see
from monitor.live.alarm_digests import AlarmDigest
from monitor.live.live_state import Delta, LiveState
from monitor.live.rule_table import RulePage
from monitor.live.visible_cases import CasePage, OpenCase, case_page, open_case


class VisibleLive:
    """For one viewer. What is hidden from him is as what is not there."""

    def __init__(self, live: LiveState, viewer: Viewer) -> None:
        self._live = live
        self.viewer = viewer

    @property
    def alarms(self) -> list[Alarm]:
        """Newest last."""
        return [one for one in self._live.alarms if self.sees(one)]

    @property
    def digests(self) -> list[AlarmDigest]:
        """Of the alarms that are none of `alarms`; that with the newest alarm last."""
        return [one for one in self._live.digests.newest if self._sees_digest(one)]

    def alarms_since(self, raised_from_ms: int) -> int:
        """Of those in memory, digests included."""
        singles = sum(one.raised_at_ms >= raised_from_ms for one in self.alarms)
        return singles + sum(one.count for one in self.digests if one.minute_ms >= raised_from_ms)

    def hits(self) -> Counter[str]:
        """The alarms in memory by rule, digests included."""
        hits = Counter(one.rule_id for one in self.alarms)
        for digest in self.digests:
            hits[digest.rule_id] += digest.count
        return hits

    def sees(self, alarm: Alarm) -> bool:
        """Whether he sees the alarm."""
        return may_see(self.viewer, alarm.visible_to)

    def alarm(self, alarm_id: str) -> Alarm | None:
        """One of those in memory."""
        found = self._live.alarm(alarm_id)
        return found if found is not None and self.sees(found) else None

    def is_known_hidden(self, alarm_id: str) -> bool:
        """Whether the alarm in memory of this id is hidden, or else the rule whose id it begins
        with: asked where the store is away."""
        found = self._live.alarm(alarm_id)
        if found is not None:
            return not self.sees(found)
        ends = [at for at, sign in enumerate(alarm_id) if sign == ":"]
        rules = (self._live.rules.get(alarm_id[:end]) for end in ends)
        return any(rule is not None and not self._sees_rule(rule) for rule in rules)

    def trajectory(self, rule_id: str) -> list[Alarm]:
        """The alarms of one target in the order of capture."""
        return [one for one in self._live.trajectory(rule_id) if self.sees(one)]

    def rule(self, rule_id: str) -> DecidedRule | None:
        """The newest decision on a rule."""
        found = self._live.rules.get(rule_id)
        return found if found is not None and self._sees_rule(found) else None

    def rule_page(self, now_ms: int, *, limit: int, cursor: str = "") -> RulePage:
        """See `RuleTable.page`."""
        return self._live.rules.page(now_ms, limit=limit, viewer=self.viewer, cursor=cursor)

    def rule_count(self, now_ms: int) -> int:
        """See `RuleTable.count`."""
        return self._live.rules.count(now_ms, self.viewer)

    def waiting(self) -> list[WatchProposal]:
        """What waits for an approval, oldest first; not where the text in force is hidden."""
        return [one for one in self._live.proposals.waiting() if self._sees_proposal(one)]

    def case_page(
        self, now_ms: int, *, limit: int, begins: str = "", cursor: str = ""
    ) -> CasePage:
        """Cases of which he sees a rule, or one that waits; see `visible_cases.case_page`."""
        self._live.rules.expire(now_ms)
        return case_page(
            self._live.rules.cases, self.waiting(), self.viewer,
            limit=limit, begins=begins, cursor=cursor,
        )  # fmt: skip

    def case(self, case: str, now_ms: int) -> OpenCase:
        """What he sees of one; see `visible_cases.open_case`."""
        rules = self._live.rules
        return open_case(rules.cases, rules, self.waiting(), self.viewer, case, now_ms)

    def checkpoint_state(self, checkpoint_id: str, now_ms: int, quiet_after_ms: int) -> str:
        """See `LiveState.checkpoint_state`."""
        return self._live.checkpoint_state(checkpoint_id, now_ms, quiet_after_ms, self.viewer)

    def visible_delta(self, delta: Delta) -> Delta:
        """Of it what he sees."""
        if not (delta.alarms or delta.alarm_states or delta.digests):
            return delta
        return msgspec.structs.replace(
            delta,
            alarms=tuple(filter(self.sees, delta.alarms)),
            alarm_states=tuple(
                one for one in delta.alarm_states if not self.is_known_hidden(one.alarm_id)
            ),
            digests=tuple(filter(self._sees_digest, delta.digests)),
        )

    def _sees_digest(self, digest: AlarmDigest) -> bool:
        return may_see(self.viewer, digest.visible_to)

    def _sees_rule(self, rule: DecidedRule) -> bool:
        return may_see(self.viewer, rule.visible_to)

    def _sees_proposal(self, proposal: WatchProposal) -> bool:
        rule = self._live.rules.get(proposal.rule_id)
        is_seen = may_see(self.viewer, proposal.text.visible_to)
        return is_seen and (rule is None or self._sees_rule(rule))
