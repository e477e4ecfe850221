"""What one batch of candidates and incidents decides. Pure.

In: messages of `event.candidate` and `event.incident`, the rules in force, `now_ms`. Out: alarms,
incidents, what could not be read. Never: I/O, a clock, the once-only check (the store's, by the
alarm's id).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from alarm.rules import RuleSet, verdict
from bus.client.model import ConsumedRecord
from bus.contracts.alarms import Alarm, Candidate, Incident
from bus.contracts.topics import EVENT_CANDIDATE, EVENT_INCIDENT


class Decisions(NamedTuple):
    """What the messages came to. `unreadable`: where one stands that is not ours, and why."""

    alarms: list[Alarm]
    incidents: list[Incident]
    unreadable: list[str]


def decide(messages: Iterable[ConsumedRecord], rules: RuleSet, now_ms: int) -> Decisions:
    """Give the verdicts. A message that is not ours is reported and passed over."""
    decisions = Decisions([], [], [])
    for message in messages:
        try:
            _decide(message, rules, now_ms, decisions)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            where = f"{message.topic}-{message.partition}@{message.offset}"
            decisions.unreadable.append(f"the message at {where} is not readable: {error}")
    return decisions


def _decide(message: ConsumedRecord, rules: RuleSet, now_ms: int, decisions: Decisions) -> None:
    value = message.value or b""
    if message.topic == EVENT_INCIDENT:
        decisions.incidents.append(msgspec.json.decode(value, type=Incident))
    elif message.topic == EVENT_CANDIDATE:
        alarm = verdict(rules, msgspec.json.decode(value, type=Candidate), now_ms)
        if alarm is not None:
            decisions.alarms.append(alarm)
