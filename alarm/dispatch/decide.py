"""What messages of the event topics come to. Pure.

In: messages of `event.candidate`, the rules in force, `now_ms`; or what others have put on
`event.alarm` and `event.incident`. Out: alarms, incidents, what could not be read. Never: I/O, a
clock, the once-only check (`raised_alarms`, and the store's by the alarm's id).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from alarm.rules import RuleSet, verdict
from bus.client.model import ConsumedRecord
from bus.contracts.alarms import (
    Acknowledged,
    Alarm,
    Candidate,
    Incident,
    Notified,
    Suppressed,
)
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.topics import (
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    EVENT_SUPPRESSED,
)

_Event = TypeVar("_Event")
_ALARMS = msgspec.json.Decoder(Alarm)
_INCIDENTS = msgspec.json.Decoder(Incident)
_NOTIFIED = msgspec.json.Decoder(Notified)
_SUPPRESSED = msgspec.json.Decoder(Suppressed)
_ACKNOWLEDGED = msgspec.json.Decoder(Acknowledged)


class Decisions(NamedTuple):
    """What the messages came to. `unreadable`: where one stands that is not ours, and why.
    `origins`: of incidents that were carried, by their ids, the header of the first message."""

    alarms: list[Alarm]
    incidents: list[Incident]
    unreadable: list[str]
    notified: list[Notified]
    acknowledged: list[Acknowledged]
    origins: dict[str, bytes]
    suppressed: list[Suppressed]


def decide(messages: Iterable[ConsumedRecord], rules: RuleSet, now_ms: int) -> Decisions:
    """Give the verdicts on candidates. A message that is not ours is reported and passed over."""
    decisions = Decisions([], [], [], [], [], {}, [])

    def judge(value: bytes) -> Alarm | None:
        return verdict(rules, msgspec.json.decode(value, type=Candidate), now_ms)

    for message in messages:
        alarm = _read(message, judge, decisions)
        if alarm is not None:
            decisions.alarms.append(alarm)
    return decisions


def raised(messages: Iterable[ConsumedRecord]) -> Decisions:
    """What was decided before: the alarms and incidents of their topics, and who was told."""
    decisions = Decisions([], [], [], [], [], {}, [])
    kinds: dict[str, tuple[msgspec.json.Decoder[Any], list[Any]]] = {
        EVENT_ALARM: (_ALARMS, decisions.alarms),
        EVENT_INCIDENT: (_INCIDENTS, decisions.incidents),
        EVENT_SUPPRESSED: (_SUPPRESSED, decisions.suppressed),
        EVENT_NOTIFIED: (_NOTIFIED, decisions.notified),
        EVENT_ACKNOWLEDGED: (_ACKNOWLEDGED, decisions.acknowledged),
    }
    for message in messages:
        if message.topic in kinds:
            decoder, found = kinds[message.topic]
            event = _read(message, decoder.decode, decisions)
            if event is not None:
                found.append(event)
                origin = message.header(MIRROR_ORIGIN)
                if message.topic == EVENT_INCIDENT and origin is not None:
                    decisions.origins.setdefault(event.incident_id, origin)
    return decisions


def _read(
    message: ConsumedRecord, parse: Callable[[bytes], _Event], decisions: Decisions
) -> _Event | None:
    try:
        return parse(message.value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        where = f"{message.topic}-{message.partition}@{message.offset}"
        decisions.unreadable.append(f"the message at {where} is not readable: {error}")
        return None
