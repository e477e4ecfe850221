"""Which alarms are on `event.alarm` already: the memory by which none is raised twice. Pure.

In: ids of alarms and when they were put on the topic. Out: those of a batch that are new. Never:
I/O, a clock; more than `MAX_REMEMBERED` ids.

Of an id 16 bytes of BLAKE2b are kept: two ids of a million share them with a probability of 10^-27.
An hour's ids are one set, so that an hour is forgotten at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from bus.contracts.alarms import Alarm
from bus.contracts.topics import DATA_TOPICS, EVENT_CANDIDATE, TOPICS

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
HOUR_MS = 3_600_000


class RaisedAlarms:
    """Invariant: after `forget` there are at most `limit` digests, none older than
    `remembered_ms` and an hour."""

    def __init__(self, limit: int = MAX_REMEMBERED, remembered_ms: int = REMEMBERED_MS) -> None:
        self._limit = limit
        self._remembered_ms = remembered_ms
        self._hours: dict[int, set[bytes]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._hours.values()))

    def __contains__(self, alarm_id: str) -> bool:
        found = digest(alarm_id)
        return any(found in hour for hour in self._hours.values())

    def add(self, alarm_id: str, at_ms: int) -> None:
        """This alarm stands on the topic since that time."""
        self._hours.setdefault(at_ms // HOUR_MS, set()).add(digest(alarm_id))

    def new_of(self, alarms: Iterable[Alarm]) -> list[Alarm]:
        """Those that are not on the topic, each once."""
        distinct: dict[str, Alarm] = {}
        for alarm in alarms:
            distinct.setdefault(alarm.alarm_id, alarm)
        return [alarm for alarm in distinct.values() if alarm.alarm_id not in self]

    def forget(self, now_ms: int) -> int:
        """Give up hours whose every alarm is older than `remembered_ms`, then the oldest while
        there are too many; returns how many alarms the latter were."""
        oldest = (now_ms - self._remembered_ms) // HOUR_MS
        for hour in [hour for hour in self._hours if hour < oldest]:
            del self._hours[hour]
        given_up = 0
        while len(self) > self._limit:
            given_up += len(self._hours.pop(min(self._hours)))
        return given_up


def digest(alarm_id: str) -> bytes:
    """What is remembered of an id."""
    return hashlib.blake2b(alarm_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
