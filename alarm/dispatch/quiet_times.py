"""Which alarm stands for a further passage of its target at its place. Pure.

In: what stands on `event.alarm`. Out: for an alarm that would be raised, the one that stands for
it. Never: I/O, a clock; what was suppressed: it stands for nothing, so that a target that keeps
coming raises an alarm per quiet time.

The difference of capture times counts, whichever came first. So alarms of one target and place are
a quiet time apart, two by two, and what is decided again, from whatever part of them was published,
is decided the same: what was raised is not within the quiet time of another alarm, and what was not
is within that of one. Of several the one that stood on the topic first is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from bus.contracts.alarms import Alarm, Suppressed
from bus.domain.plates import plate_form
from bus.domain.rule_values import normal
from bus.domain.targets import target_of_reading
from bus.domain.times import HOUR_MS

MAX_PASSAGES = 250_000
"""A tenth of a gigabyte (409 bytes each): 30,000 alarms a day, for as long as a candidate may come
again."""


class RaisedAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of an alarm on its topic; one of an earlier version does not name its target."""

    alarm_id: str
    rule_id: str = ""
    record_id: str = ""
    checkpoint_id: str = ""
    camera_ip: str = ""
    captured_at_ms: int = 0
    plate_number: str = ""
    target: str = ""
    case: str = ""
    case_target: str = ""
    severity: str = ""
    visible_to: list[str] = []


class Passage(NamedTuple):
    """One alarm of a target at a place, and where it stands on the topic."""

    offset: int
    captured_at_ms: int
    alarm_id: str


class QuietTimes:
    """Invariant: `_hours` has, by the hour of its arrival on the topic, the passage of each alarm
    that has a target and a place; at most `limit` after `forget`."""

    def __init__(self, limit: int = MAX_PASSAGES) -> None:
        self._limit = limit
        self._hours: dict[int, dict[bytes, list[Passage]]] = {}
        self._counts: dict[int, int] = {}

    def __len__(self) -> int:
        return sum(self._counts.values())

    def add(self, alarm: Alarm | RaisedAlarm, at_ms: int, offset: int) -> None:
        """It stands on the topic there, since that time."""
        key = key_of(alarm)
        if key is None:
            return
        hour = at_ms // HOUR_MS
        passage = Passage(offset, alarm.captured_at_ms, alarm.alarm_id)
        self._hours.setdefault(hour, {}).setdefault(key, []).append(passage)
        self._counts[hour] = self._counts.get(hour, 0) + 1

    def suppressor(self, alarm: Alarm, quiet_ms: int) -> str | None:
        """The id of the first alarm whose quiet time this one falls into."""
        key = key_of(alarm) if quiet_ms > 0 else None
        if key is None:
            return None
        near = [
            one
            for one in self._of(key)
            if abs(one.captured_at_ms - alarm.captured_at_ms) < quiet_ms
        ]
        return min(near).alarm_id if near else None

    def forget_before(self, hour: int) -> None:
        """What came before that hour."""
        for old in [one for one in self._hours if one < hour]:
            self._drop(old)

    def forget_surplus(self) -> int:
        """The oldest hours, while there are too many; how many alarms that were."""
        given_up = 0
        while len(self) > self._limit:
            given_up += self._drop(min(self._hours))
        return given_up

    def _of(self, key: bytes) -> Iterator[Passage]:
        for hour in self._hours.values():
            yield from hour.get(key, ())

    def _drop(self, hour: int) -> int:
        del self._hours[hour]
        return self._counts.pop(hour)


def suppressed(alarm: Alarm, by: str) -> Suppressed:
    """What is said instead of the alarm."""
    return Suppressed(
        alarm_id=by, record_id=alarm.record_id, rule_id=alarm.rule_id,
        captured_at_ms=alarm.captured_at_ms, visible_to=alarm.visible_to,
    )  # fmt: skip


def key_of(alarm: Alarm | RaisedAlarm) -> bytes | None:
    """Target and place; None where a second passage could not be known as one. A target of a case
    is one whatever it is known by, and whichever of its rules met it; yet no alarm stands for one
    that others would see, or that is more or less severe. Else a target is one of its rule."""
    place = normal(alarm.checkpoint_id) or normal(alarm.camera_ip)
    if not place:
        return None
    if alarm.case_target:
        audience = sorted(alarm.visible_to)
        parts = ["", alarm.case, alarm.case_target, alarm.severity, place, *audience]
    else:
        target = alarm.target or target_of_reading(plate_form(alarm.plate_number))
        if not target:
            return None
        parts = [alarm.rule_id, target, place]
    text = "\0".join(parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
