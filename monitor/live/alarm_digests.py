"""Which alarms screens show one by one: the first of a rule's in a minute; the others are counted.

In: alarms as they come, each once. Out: for those beyond the first, what they are together: by
rule, minute and the units that see them, and within it by district. Pure. Never: who looks; an
alarm that is in no row and in no count; more memory than the limits below.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from bus.contracts.alarms import Alarm
from bus.domain.times import MINUTE_MS

MAX_DIGESTS = 100  # kept for a page that opens; older alarms are listed from the store
MAX_COUNTED = 5_000  # rules and minutes; the oldest is forgotten, and would begin again at one
MAX_DISTRICTS = 200  # of one digest; alarms of further ones count as of an unknown place


class DistrictCount(msgspec.Struct, frozen=True, kw_only=True):
    """Of one digest the alarms of one district (empty: of a place that is not known)."""

    district_id: str
    count: int
    raised_at_ms: int
    """Of the newest."""


class AlarmDigest(msgspec.Struct, frozen=True, kw_only=True):
    """Alarms of one rule raised within one minute, beyond those that are rows."""

    rule_id: str
    rule_name: str
    severity: str
    minute_ms: int
    visible_to: tuple[str, ...]
    districts: tuple[DistrictCount, ...]

    @property
    def digest_id(self) -> str:
        """The same as it grows; no alarm has this form of id."""
        return f"digest|{self.minute_ms}|{self.rule_id}|{','.join(self.visible_to)}"

    @property
    def count(self) -> int:
        """Of all districts."""
        return sum(one.count for one in self.districts)

    @property
    def raised_at_ms(self) -> int:
        """Of the newest alarm."""
        return max(one.raised_at_ms for one in self.districts)

    def of_districts(self, is_shown: Callable[[str], bool]) -> AlarmDigest | None:
        """What it says of some districts; None where that is nothing."""
        kept = tuple(one for one in self.districts if is_shown(one.district_id))
        if len(kept) == len(self.districts):
            return self
        return msgspec.structs.replace(self, districts=kept) if kept else None


_Key = tuple[str, int, tuple[str, ...]]
"""Rule, minute, the units that see its alarms."""


class _MinuteCount:
    """Of one key: how many alarms are rows; of those beyond them, their numbers."""

    __slots__ = ("districts", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.districts: dict[str, DistrictCount] = {}

    def add(self, alarm: Alarm) -> None:
        """One that is no row."""
        has_room = alarm.district_id in self.districts or len(self.districts) < MAX_DISTRICTS
        district_id = alarm.district_id if has_room else ""
        before = self.districts.get(district_id)
        self.districts[district_id] = DistrictCount(
            district_id=district_id,
            count=1 + (before.count if before else 0),
            raised_at_ms=max(alarm.raised_at_ms, before.raised_at_ms if before else 0),
        )


class AlarmDigests:
    """Invariant: `_counted` holds the alarms of each key, `_newest` the digests of those keys that
    have one, that with the newest alarm last. A digest is made when an alarm comes: every page
    reads all of them each second."""

    def __init__(self, alarms_a_minute: int) -> None:
        self._limit = alarms_a_minute
        self._counted: OrderedDict[_Key, _MinuteCount] = OrderedDict()
        self._newest: OrderedDict[_Key, AlarmDigest] = OrderedDict()
        self._changed: dict[_Key, None] = {}

    @property
    def newest(self) -> list[AlarmDigest]:
        """That with the newest alarm last."""
        return list(self._newest.values())

    def take_changed(self) -> tuple[AlarmDigest, ...]:
        """Those that have grown since the last call, as they are now."""
        changed, self._changed = self._changed, {}
        return tuple(self._newest[key] for key in changed if key in self._newest)

    def on_alarm(self, alarm: Alarm) -> bool:
        """Count it; False where it is a row of its own."""
        minute_ms = alarm.raised_at_ms // MINUTE_MS * MINUTE_MS
        key = (alarm.rule_id, minute_ms, tuple(alarm.visible_to))
        counted = self._counted.setdefault(key, _MinuteCount())
        self._counted.move_to_end(key)
        if len(self._counted) > MAX_COUNTED:
            gone, _ = self._counted.popitem(last=False)
            self._newest.pop(gone, None)
        if counted.rows < self._limit:
            counted.rows += 1
            return False
        counted.add(alarm)
        self._changed[key] = None
        self._newest[key] = AlarmDigest(
            rule_id=alarm.rule_id,
            rule_name=alarm.rule_name,
            severity=alarm.severity,
            minute_ms=minute_ms,
            visible_to=tuple(alarm.visible_to),
            districts=tuple(counted.districts.values()),
        )
        self._newest.move_to_end(key)
        if len(self._newest) > MAX_DIGESTS:
            self._newest.popitem(last=False)
        return True
