"""How the life of an alarm is shown, in lists and by itself. Pure."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec

from bus.contracts.alarm_states import AlarmState, AlarmStep, RuleVerdicts
from bus.domain.alarm_life import is_often_false
from monitor.api.views import Row, clock


def life_fields(state: AlarmState, zone: ZoneInfo) -> Row:
    """Of a row. `acknowledged_by` is its owner, as before alarms had more of a life."""
    return {
        "stage": state.stage,
        "owner": state.owner,
        "acknowledged_by": state.owner,
        "since": clock(state.since_ms, zone),
        "since_ms": state.since_ms,
        "verdict": state.verdict,
        "why": state.why,
        "result": state.result,
        "version": state.n,
    }


def life_detail(state: AlarmState, zone: ZoneInfo) -> Row:
    """With all that was done, the oldest first."""
    return life_fields(state, zone) | {"history": [step_row(one, zone) for one in state.history]}


def step_row(step: AlarmStep, zone: ZoneInfo) -> Row:
    """One thing that was done."""
    fields: Row = msgspec.structs.asdict(step)
    return fields | {"at": clock(step.at_ms, zone), "asked_at": clock(step.asked_at_ms, zone)}


def verdict_fields(verdicts: RuleVerdicts) -> Row:
    """Of a rule: how many of its alarms somebody has judged, how many were false."""
    return {
        "judged": verdicts.judged,
        "false_alarms": verdicts.false,
        "often_false": is_often_false(verdicts),
    }
