"""The last minutes of the bus: rates, rows, alarms, incidents, checkpoints (pure; time comes in).

In: counts and parsed messages. Out: deltas for pages, rings for a page that opens.
Never: Kafka, languages, more memory than the limits below.
"""

from __future__ import annotations

from collections import OrderedDict, deque

import msgspec

from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import NOT_PRIMARY, Alarm, Incident
from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import BesideRules, EmergencyTarget
from bus.contracts.topics import CONTROL_MIRROR_TAILS, STATE_WATCHLIST
from bus.domain.kinds import TOPIC_OF_KIND
from bus.domain.visibility import Viewer, may_see
from bus.notify.notice_plan import ALARMS_A_MINUTE
from monitor.live.alarm_digests import AlarmDigest, AlarmDigests
from monitor.live.live_record import LiveRecord
from monitor.live.proposal_table import ProposalTable
from monitor.live.rule_table import RuleTable
from monitor.models.diverged_ids import DivergedIds

RATE_SECONDS = 300  # of the live chart
MAX_ALARMS = 500  # in memory; older ones come from the store
MAX_KNOWN_ALARMS = 20_000  # ids, 3 MB: a dispatcher that was paused may repeat some seconds' alarms
MAX_AUDIENCES = 200  # distinct units of rules, of which it is known which checkpoints are lit
MAX_CLOSED_INCIDENTS = 100
MAX_CHECKPOINTS = 20_000  # a device may invent checkpoint ids; the oldest are forgotten
MAX_ROWS_PER_DELTA = 25  # more than a person can read
ALARM_LIT_MS = 120_000  # a checkpoint shows an alarm for so long


class RatePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one second; `rates` by kind of data."""

    second_ms: int
    rates: dict[str, float]

    @property
    def total(self) -> float:
        """All kinds."""
        return sum(self.rates.values())


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What is new since the last delta. `passed` counts all records, `rows` shows the newest of
    them.
    """

    rows: tuple[LiveRecord, ...] = ()
    passed: int = 0
    alarms: tuple[Alarm, ...] = ()
    incidents: tuple[Incident, ...] = ()
    rates: tuple[RatePoint, ...] = ()
    rules_changed: bool = False
    alarm_states: tuple[AlarmState, ...] = ()
    digests: tuple[AlarmDigest, ...] = ()

    @property
    def empty(self) -> bool:
        """Nothing to tell."""
        events = self.alarms or self.incidents or self.alarm_states or self.digests
        return not (self.rows or events or self.rates or self.rules_changed)


class LiveState:
    """One per console. Invariant: every ring is bounded; no alarm is shown twice while its id is
    among the newest `MAX_KNOWN_ALARMS`; of a rule at most `alarms_a_minute` are rows, so that no
    rule takes the place of all others, and the rest is in `digests`."""

    def __init__(self, *, rows: int, alarms_a_minute: int = ALARMS_A_MINUTE) -> None:
        self.rows: deque[LiveRecord] = deque(maxlen=rows)
        self.rates: deque[RatePoint] = deque(maxlen=RATE_SECONDS)
        self.rules = RuleTable()
        self.proposals = ProposalTable()
        self.diverged_ids = DivergedIds()
        self.digests = AlarmDigests(alarms_a_minute)
        self._alarms: OrderedDict[str, Alarm] = OrderedDict()
        self._known_alarms: OrderedDict[str, None] = OrderedDict()
        self._incidents: OrderedDict[str, Incident] = OrderedDict()
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._alarmed_at: OrderedDict[tuple[str, ...], dict[str, int]] = OrderedDict()
        self._second: dict[str, int] = {}
        self._last_tick_ms = 0
        self._pending = _PendingDelta()

    @property
    def alarms(self) -> list[Alarm]:
        """Newest last."""
        return list(self._alarms.values())

    @property
    def is_awaited(self) -> bool:
        """Whether the next delta has something that somebody waits for."""
        return bool(self._pending.alarms or self._pending.alarm_states)

    @property
    def incidents(self) -> list[Incident]:
        """Open and lately closed, newest last."""
        return list(self._incidents.values())

    def open_incidents(self) -> list[Incident]:
        """Incidents without an end yet."""
        return [i for i in self._incidents.values() if i.state == "open"]

    def on_recreated(self, topic: str) -> None:
        """A topic that says a whole state was made anew: it says it again, from nothing."""
        if topic == STATE_WATCHLIST:
            self.rules, self.proposals = RuleTable(), ProposalTable()
            self._pending.rules_changed = True
        elif topic == CONTROL_MIRROR_TAILS:
            self.diverged_ids = DivergedIds()

    def on_counts(self, counts: dict[str, int]) -> None:
        """Messages per data topic that passed, looked into or not."""
        for topic, count in counts.items():
            self._second[topic] = self._second.get(topic, 0) + count
            self._pending.passed += count

    def on_records(self, records: list[LiveRecord], now_ms: int) -> None:
        """Records that were looked into."""
        self.rows.extend(records)
        self._pending.rows.extend(records)
        for one in records:
            self._seen[one.checkpoint_id] = now_ms
            self._seen.move_to_end(one.checkpoint_id)
        while len(self._seen) > MAX_CHECKPOINTS:
            self._seen.popitem(last=False)

    def on_alarm(self, alarm: Alarm) -> bool:
        """An alarm; False when its id is known (the topic may repeat itself)."""
        if alarm.alarm_id in self._known_alarms:
            return False
        self._known_alarms[alarm.alarm_id] = None
        while len(self._known_alarms) > MAX_KNOWN_ALARMS:
            self._known_alarms.popitem(last=False)
        self._light(alarm)
        if self.digests.on_alarm(alarm):
            return True
        self._alarms[alarm.alarm_id] = alarm
        self._pending.alarms.append(alarm)
        while len(self._alarms) > MAX_ALARMS:
            self._alarms.popitem(last=False)
        return True

    def on_incident(self, incident: Incident) -> None:
        """The beginning or the end of an incident; an end is never undone by a late beginning,
        but for that of a take-over."""
        known = self._incidents.get(incident.incident_id)
        if known is not None and known.state == "closed":
            is_by_takeover = known.detail.get("reason") == NOT_PRIMARY
            if incident.state == "closed" or not is_by_takeover:
                return
        self._incidents[incident.incident_id] = incident
        self._pending.incidents.append(incident)
        closed = [i.incident_id for i in self._incidents.values() if i.state == "closed"]
        for incident_id in closed[:-MAX_CLOSED_INCIDENTS]:
            del self._incidents[incident_id]

    def on_beside_rules(self, value: BesideRules) -> None:
        """A proposal, or the end of one."""
        if isinstance(value, EmergencyTarget):
            return  # nothing of it is shown
        if self.proposals.apply(value, self.rules.get(value.rule_id)):
            self._pending.rules_changed = True

    def on_alarm_state(self, state: AlarmState) -> None:
        """Somebody has acted on an alarm; who looks asks the store for it."""
        self._pending.alarm_states.append(state)

    def on_command(self, rule_id: str, command: DecidedRule | None) -> None:
        """A command or a tombstone of the watch list."""
        if command is None:
            self.rules.forget(rule_id)
            self._pending.rules_changed = True
        elif self.rules.apply(command):
            self._pending.rules_changed = True
        if command is not None:
            self.proposals.on_rule(command)

    def _light(self, alarm: Alarm) -> None:
        """Its checkpoint, for those who see the alarm."""
        units = tuple(alarm.visible_to)
        lit = self._alarmed_at.setdefault(units, {})
        self._alarmed_at.move_to_end(units)
        lit[alarm.checkpoint_id] = max(lit.get(alarm.checkpoint_id, 0), alarm.raised_at_ms)
        while len(self._alarmed_at) > MAX_AUDIENCES:
            self._alarmed_at.popitem(last=False)

    def checkpoint_state(
        self, checkpoint_id: str, now_ms: int, quiet_after_ms: int, viewer: Viewer
    ) -> str:
        """alarm, fault, active, quiet or unknown (nothing since this console started)."""
        for units, lit in self._alarmed_at.items():
            if now_ms - lit.get(checkpoint_id, 0) < ALARM_LIT_MS and may_see(viewer, units):
                return "alarm"
        if any(i.checkpoint_id == checkpoint_id for i in self.open_incidents()):
            return "fault"
        seen = self._seen.get(checkpoint_id)
        if seen is None:
            return "unknown"
        return "active" if now_ms - seen < quiet_after_ms else "quiet"

    def alarm(self, alarm_id: str) -> Alarm | None:
        """One of those in memory."""
        return self._alarms.get(alarm_id)

    def trajectory(self, rule_id: str) -> list[Alarm]:
        """The alarms of one target in the order of capture."""
        mine = [a for a in self._alarms.values() if a.rule_id == rule_id]
        return sorted(mine, key=lambda a: (a.captured_at_ms, a.alarm_id))

    def delta(self, now_ms: int) -> Delta:
        """What is new since the last call; closes a second of the rate when one has passed."""
        rates = self._close_second(now_ms)
        fresh, self._pending = self._pending, _PendingDelta()
        return Delta(
            rows=tuple(fresh.rows),
            passed=fresh.passed,
            alarms=tuple(fresh.alarms),
            incidents=tuple(fresh.incidents),
            rates=rates,
            rules_changed=fresh.rules_changed,
            alarm_states=tuple(fresh.alarm_states),
            digests=self.digests.take_changed(),
        )

    def _close_second(self, now_ms: int) -> tuple[RatePoint, ...]:
        if self._last_tick_ms == 0:
            self._last_tick_ms = now_ms
            self._second.clear()
            return ()
        elapsed_ms = now_ms - self._last_tick_ms
        if elapsed_ms < 1000:
            return ()
        rates = {
            kind: self._second.get(topic, 0) * 1000 / elapsed_ms
            for kind, topic in TOPIC_OF_KIND.items()
        }
        point = RatePoint(second_ms=now_ms, rates=rates)
        self._second.clear()
        self._last_tick_ms = now_ms
        self.rates.append(point)
        return (point,)


class _PendingDelta:
    """What has come since the last delta."""

    def __init__(self) -> None:
        self.rows: deque[LiveRecord] = deque(maxlen=MAX_ROWS_PER_DELTA)
        self.passed = 0
        self.alarms: deque[Alarm] = deque(maxlen=MAX_ALARMS)
        self.incidents: deque[Incident] = deque(maxlen=MAX_CLOSED_INCIDENTS)
        self.rules_changed = False
        self.alarm_states: deque[AlarmState] = deque(maxlen=MAX_ALARMS)
