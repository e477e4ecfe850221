"""Everyone who sends: devices, servers, districts, the site, each with a habit. Pure.

In: sightings per second, the deployment register. Out: who was seen, when each is to be checked.
Never: an opinion about a silence (`silence`).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo

from bus.contracts.register import Register
from bus.domain.times import HOUR_MS
from monitor.watch.habits import HABIT_BYTES, MAX_LOOK_AHEAD_HOURS, Habit
from monitor.watch.watch_clock import HourClasses, WatchClock

MAX_SENDERS = 20_000
"""A stranger may invent addresses: under a kilobyte each, so 20 MB; the rest is not judged."""
SAVED_AT_ONCE = 500
SEEN_SHARE = 0.5  # an hour of which less was seen teaches nothing
FORGET_MS = 14 * 24 * HOUR_MS  # two weeks without a record: the device was taken away

DEVICE, SERVER, DISTRICT, SITE = "device", "server", "district", "site"
SCOPES = (SITE, DISTRICT, SERVER, DEVICE)  # the widest first: it explains the narrower ones
Address = tuple[str, str]  # scope and address
CLOCK = "clock"  # the row that says when the others were saved, in seen time
_SEEN = struct.Struct("<q")


@dataclass(slots=True, eq=False)
class RecordSender:
    """One that sends. Invariant: while `is_silent`, nothing is learnt from it."""

    scope: str
    address: str
    server: str
    district: str
    last_ms: int  # seen time of its last record, or of the start of its timer
    habit: Habit = field(default_factory=Habit)
    devices: int = 0  # behind a server, in a district, at the site
    hour_records: int = 0
    quiet_hours: bytes = b""  # whole hours without a record, learnt when it is heard in time
    is_silent: bool = False
    is_whole_hour: bool = False  # it was known, and not silent, since the hour began
    is_changed: bool = False  # since its habit was saved
    check_ms: int | None = None  # seen time at which it is looked at; None: it stands in no queue

    def __lt__(self, other: RecordSender) -> bool:
        """In a queue, where both have a time; of equal ones by address, so that two runs over the
        same records say the same."""
        if self.check_ms == other.check_ms:
            return self.address < other.address
        return (self.check_ms or 0) < (other.check_ms or 0)

    @property
    def key(self) -> Address:
        """Names it among all."""
        return self.scope, self.address


class SavedHabit:
    """One row of the watch's own file: a habit, and behind it the seen time of the last record."""

    __slots__ = ("address", "body", "scope", "server")

    def __init__(self, scope: str, address: str, server: str, body: bytes) -> None:
        self.scope, self.address, self.server, self.body = scope, address, server, body


class RecordSenders:
    """`new` are those added since it was emptied. Invariant: an hour teaches once, when it ends."""

    def __init__(self, clock: WatchClock, zone: tzinfo) -> None:
        self.register = Register()
        self.classes = HourClasses(zone)
        self.by_key: dict[Address, RecordSender] = {}
        self.new: list[RecordSender] = []
        self.refused = 0
        self._forgotten: list[Address] = []
        self._clock = clock
        self._hour_number = clock.now_ms // HOUR_MS
        self._hour_began_ms = clock.seen_ms

    def load(self, saved: Iterable[SavedHabit]) -> list[SavedHabit]:
        """Go on with what an earlier process has learnt, and with its timers: the time in between
        counts for nobody. Gives back what cannot be read."""
        unreadable, last_ms, saved_ms = [], dict[RecordSender, int](), None
        for row in saved:
            try:
                if row.scope == CLOCK:
                    (saved_ms,) = _SEEN.unpack(row.body)
                    continue
                habit = Habit.from_bytes(row.body[:HABIT_BYTES])
                seen = _SEEN.unpack(row.body[HABIT_BYTES:]) if row.body[HABIT_BYTES:] else None
            except (ValueError, struct.error):
                unreadable.append(row)
                continue
            # Each row of the file has texts of its own, of ten thousand devices half a megabyte.
            sender = self.add(sys.intern(row.scope), row.address, sys.intern(row.server))
            if sender is not None:
                sender.habit = habit
                if seen is not None:  # earlier files have no timers
                    last_ms[sender] = seen[0]
                    sender.is_changed = True  # a timer counts the seen time of this process now
        if saved_ms is not None:
            for sender, at_ms in last_ms.items():
                sender.last_ms = self._clock.seen_ms - max(0, saved_ms - at_ms)
        return unreadable

    def changed(self) -> Iterator[list[SavedHabit]]:
        """What has changed since it was asked last, in parts: all at once ten thousand bodies are
        six megabytes. Each part has the seen time of its moment, so that it is whole by itself."""
        part: list[SavedHabit] = []
        for sender in list(self.by_key.values()):
            if sender.is_changed and self.by_key.get(sender.key) is sender:
                sender.is_changed = False
                body = sender.habit.to_bytes() + _SEEN.pack(sender.last_ms)
                part.append(SavedHabit(sender.scope, sender.address, sender.server, body))
            if len(part) == SAVED_AT_ONCE:
                yield [*part, self._now()]
                part = []
        yield [*part, self._now()]

    def _now(self) -> SavedHabit:
        return SavedHabit(CLOCK, "", "", _SEEN.pack(self._clock.seen_ms))

    def add(self, scope: str, address: str, server: str) -> RecordSender | None:
        """The one of this name; None beyond MAX_SENDERS."""
        found = self.by_key.get((scope, address))
        if found is not None:
            return found
        if len(self.by_key) >= MAX_SENDERS:
            self.refused += 1
            return None
        district = self._district_of(scope, address)
        sender = RecordSender(scope, address, server, district, self._clock.seen_ms)
        self.by_key[scope, address] = sender
        self.new.append(sender)
        if scope == DEVICE:
            self._count_device(sender)
        return sender

    def above(self, sender: RecordSender) -> list[RecordSender]:
        """The server, the district and the site of a device."""
        names = ((SERVER, sender.server), (DISTRICT, sender.district), (SITE, SITE))
        found = (self.add(scope, name, "") for scope, name in names if name)
        return [one for one in found if one is not None]

    def record(self, sender: RecordSender, count: int) -> None:
        """So many records of it came just now."""
        now_ms = self._clock.seen_ms
        if not sender.is_silent:
            self._learn_gap(sender, now_ms, count)
            for hour in sender.quiet_hours:
                sender.habit.learn_hour(hour, 0)
        sender.quiet_hours = b""
        sender.last_ms, sender.is_changed = now_ms, True
        sender.hour_records += count

    def due_ms(self, sender: RecordSender, factor: float, least_ms: int) -> int | None:
        """Seen time at which its silence is longer than its habit allows; None for never."""
        parts = self._clock.parts_since(sender.last_ms)
        after_ms = sender.habit.due_after_ms(parts, factor, self.classes)
        return None if after_ms is None else sender.last_ms + max(least_ms, after_ms)

    def end_hour(self) -> list[RecordSender]:
        """At the first call of a new hour: learn the last one; who has been forgotten."""
        number = self._clock.now_ms // HOUR_MS
        if number == self._hour_number:
            return []
        share = (self._clock.seen_ms - self._hour_began_ms) / HOUR_MS
        hour = self.classes.at(self._hour_number * HOUR_MS)
        for sender in self.by_key.values():
            if share >= SEEN_SHARE and sender.is_whole_hour and not sender.is_silent:
                self._learn_hour(sender, hour, share)
            sender.hour_records = 0
            sender.is_whole_hour = not sender.is_silent
            sender.district = self._district_of(sender.scope, sender.address) or sender.district
        self._hour_number, self._hour_began_ms = number, self._clock.seen_ms
        return self._forget()

    def _learn_hour(self, sender: RecordSender, hour: int, share: float) -> None:
        """A silence must not teach that silence is usual: an hour without a record counts when the
        next record comes before it is overdue."""
        if sender.hour_records:
            sender.habit.learn_hour(hour, sender.hour_records / share)
            sender.is_changed = True
        elif len(sender.quiet_hours) < MAX_LOOK_AHEAD_HOURS:
            sender.quiet_hours += bytes((hour,))

    def _forget(self) -> list[RecordSender]:
        before_ms = self._clock.seen_ms - FORGET_MS
        gone = [sender for sender in self.by_key.values() if sender.last_ms < before_ms]
        for sender in gone:
            del self.by_key[sender.key]
            self._forgotten.append(sender.key)
        return gone

    def pop_forgotten(self) -> list[Address]:
        """Who has been forgotten since the last call, and has not come back."""
        found, self._forgotten = self._forgotten, []
        return [key for key in found if key not in self.by_key]

    def _learn_gap(self, sender: RecordSender, now_ms: int, count: int) -> None:
        """Not before something is known of this hour: it could not be measured."""
        hour = self.classes.at(self._clock.now_ms)
        habit = sender.habit
        if not habit.learnt(hour):
            return
        if sender.last_ms >= self._hour_began_ms:
            expected = habit.mean(hour) * (now_ms - sender.last_ms) / HOUR_MS
        else:
            began_ms = self._clock.wall_ms(sender.last_ms)
            expected = habit.expected(began_ms, self._clock.now_ms, self.classes)
        habit.learn_gap(expected)
        if count > 1:
            habit.learn_gap(0.0, count - 1)

    def _count_device(self, sender: RecordSender) -> None:
        for one in self.above(sender):
            one.devices += 1
            one.district = one.district or (sender.district if one.scope == SERVER else "")

    def _district_of(self, scope: str, address: str) -> str:
        if scope != DEVICE:
            return ""
        device = self.register.device_by_ip.get(address)
        return self.register.district_of(device.checkpoint_id) if device else ""
