"""How long each class of data is kept: `databus.toml` [retention]. One table for every store, so
that no two of them contradict each other.

In: days. Out: the moment before which something is past its time. Never: deleting.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

import msgspec

from bus.contracts.headers import RecordKind
from bus.contracts.topics import DATA_TOPICS, DAY_MS, TOPICS
from bus.settings import NotNegative

DATA_TOPICS_DAYS = max(TOPICS[name].retention_ms for name in DATA_TOPICS) // DAY_MS
NEVER_MS = -(1 << 62)  # before every time that a device can write


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days; 0 keeps for ever, so that an upgrade deletes nothing that nobody asked to delete. Of
    `removed_days` only what somebody has removed goes."""

    records_days: NotNegative = 0  # by capture
    kinds_days: dict[str, NotNegative] = {}  # kind -> days, where they differ from records_days
    rejected_days: NotNegative = 0  # by the time they were stored
    books_days: NotNegative = 0  # the charts: quality, latency and what was sent, per minute
    pictures_days: NotNegative = 0  # the originals, by the day they arrived
    alarms_days: NotNegative = 0  # with the copies of record and pictures, by the time of raising
    incidents_days: NotNegative = 0  # by their end; one that is open stays
    removed_days: NotNegative = 400  # what was removed of rules and register, on their topics

    def __post_init__(self) -> None:
        """Refuse a kind that there is not: its days would delete nothing, without a word; and
        alarms that are gone before their records can no longer be matched again."""
        if 0 < self.alarms_days < DATA_TOPICS_DAYS:
            raise ValueError(
                f"alarms_days: {self.alarms_days} is less than the {DATA_TOPICS_DAYS} days for "
                "which the data topics keep a record; an alarm is kept at least as long"
            )
        known = {kind.value for kind in RecordKind}
        for kind in self.kinds_days:
            if kind not in known:
                raise ValueError(f"kinds_days: {kind!r} is no kind; there are {sorted(known)}")

    def record_days(self, kind: str) -> int:
        """How long records of a kind are kept; 0: for ever."""
        return self.kinds_days.get(kind, self.records_days)

    @property
    def longest_record_days(self) -> int:
        """After which no record of any kind is kept; 0 if some are kept for ever."""
        days = [self.record_days(kind.value) for kind in RecordKind]
        return max(days) if all(days) else 0


def first_retained_day(days: int, now_ms: int, zone: tzinfo) -> str:
    """The oldest day (`20261010`) that is kept whole; empty where all are."""
    if not days:
        return ""
    return datetime.fromtimestamp(past_before_ms(days, now_ms) / 1000, zone).strftime("%Y%m%d")


def past_before_ms(days: int, now_ms: int) -> int:
    """What is older than this is past its time; `NEVER_MS` where it is kept for ever."""
    return now_ms - days * DAY_MS if days else NEVER_MS
