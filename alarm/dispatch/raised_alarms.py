"""Which alarms are on `event.alarm` already: the memory by which none is raised twice. Pure.

In: alarms and when they were put on the topic. Out: those of a batch that are new, and those that
fall into the quiet time of another one (`quiet_times`). Never: I/O, a clock; more than
`MAX_REMEMBERED` ids.

Of an id 16 bytes of BLAKE2b are kept: two ids of a million share them with a probability of 10^-27.
An hour's ids are one set, so that an hour is forgotten at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from alarm.dispatch.quiet_times import MAX_PASSAGES, QuietTimes, RaisedAlarm, suppressed
from bus.contracts.alarms import Alarm, Suppressed
from bus.contracts.topics import DATA_TOPICS, EVENT_CANDIDATE, TOPICS
from bus.domain.times import HOUR_MS

RETENTIONS = {name: topic.retention_ms for name, topic in TOPICS.items()}
FOR_EVER_MS = 100 * 365 * 86_400_000


def repeated_ms(retentions: Mapping[str, int]) -> int:
    """How long a candidate may come again: a record is matched again as long as its topic holds it,
    and its candidate is read as long as `event.candidate` holds that. -1 of a topic is for ever.
    """
    known = {name: retentions.get(name, RETENTIONS[name]) for name in RETENTIONS}
    kept = {name: FOR_EVER_MS if ms < 0 else min(ms, FOR_EVER_MS) for name, ms in known.items()}
    return kept[EVENT_CANDIDATE] + max(kept[name] for name in DATA_TOPICS)


REMEMBERED_MS = repeated_ms(RETENTIONS)
"""As the topics are made; the dispatcher asks how they are."""
MAX_REMEMBERED = 5_000_000
"""Half a gigabyte (measured in ADR 0026): more alarms than a city of people can look at in years.
Beyond it the oldest hour goes, with an error in the log."""


class NewAlarms(NamedTuple):
    """Of a batch: what is to be raised, and what another alarm stands for."""

    raised: list[Alarm]
    suppressed: list[Suppressed]


class RaisedAlarms:
    """Invariant: after `forget` there are at most `limit` digests, none older than
    `remembered_ms` and an hour; `_quiet` has the passages of these."""

    def __init__(
        self,
        limit: int = MAX_REMEMBERED,
        remembered_ms: int = REMEMBERED_MS,
        most_passages: int = MAX_PASSAGES,
    ) -> None:
        self._limit = limit
        self._remembered_ms = remembered_ms
        self._hours: dict[int, set[bytes]] = {}
        self._quiet = QuietTimes(most_passages)

    def __len__(self) -> int:
        return sum(map(len, self._hours.values()))

    def __contains__(self, alarm_id: str) -> bool:
        found = digest(alarm_id)
        return any(found in hour for hour in self._hours.values())

    def add(self, alarm: Alarm | RaisedAlarm, at_ms: int, offset: int = 0) -> None:
        """It stands on the topic there, since that time. Who put it there reads it once more."""
        hour, found = at_ms // HOUR_MS, digest(alarm.alarm_id)
        if any(found in self._hours.get(near, ()) for near in (hour - 1, hour, hour + 1)):
            return
        self._hours.setdefault(hour, set()).add(found)
        self._quiet.add(alarm, at_ms, offset)

    def new_of(
        self,
        alarms: Iterable[Alarm],
        quiet_ms: Mapping[str, int],
        refused: Collection[str] = (),
    ) -> NewAlarms:
        """Those that are not on the topic, each once, in their order. `quiet_ms`: by rule;
        `refused`: ids that the topic does not take, so that they stand for nothing."""
        distinct: dict[str, Alarm] = {}
        for alarm in alarms:
            distinct.setdefault(alarm.alarm_id, alarm)
        found, beside = NewAlarms([], []), QuietTimes()
        for number, alarm in enumerate(distinct.values()):
            if alarm.alarm_id in self or alarm.alarm_id in refused:
                continue
            quiet = quiet_ms.get(alarm.rule_id, 0)
            by = self._quiet.suppressor(alarm, quiet) or beside.suppressor(alarm, quiet)
            if by is not None:
                found.suppressed.append(suppressed(alarm, by))
            else:
                found.raised.append(alarm)
                beside.add(alarm, 0, number)
        return found

    def forget(self, now_ms: int) -> int:
        """Give up hours whose every alarm is older than `remembered_ms`, then the oldest while
        there are too many; returns how many alarms the latter were."""
        oldest = (now_ms - self._remembered_ms) // HOUR_MS
        for hour in [hour for hour in self._hours if hour < oldest]:
            del self._hours[hour]
        self._quiet.forget_before(oldest)
        given_up = 0
        while len(self) > self._limit:
            given_up += len(self._hours.pop(min(self._hours)))
        return given_up

    def forget_passages(self) -> int:
        """Give up the oldest passages while there are too many; how many."""
        return self._quiet.forget_surplus()


def digest(alarm_id: str) -> bytes:
    """What is remembered of an id."""
    return hashlib.blake2b(alarm_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
