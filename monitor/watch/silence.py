"""Devices, servers, districts and the site that are silent against their own habit. Pure.

In: who was seen in the last second, the register, the watch's clock. Out: `Incident`s with their
ends. Never: I/O; a word about one device while its server, its district or the whole site is
silent.

A sender's life:

    heard  --bound passed-->  overdue  --SETTLE_MS, alone-------------->  open (its own incident)
                                       --with others, or what it hangs on is silent-->  in a group
    overdue, open, in a group  --a record-->  heard

A group ends when more than half of it was heard again; the timers of the others begin then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

import msgspec

from bus.contracts.alarms import Incident
from bus.domain.times import HOUR_MS, MINUTE_MS
from monitor.watch.senders import (
    DEVICE,
    DISTRICT,
    SCOPES,
    SERVER,
    SITE,
    RecordSender,
    RecordSenders,
)
from monitor.watch.watch_clock import WatchClock

SETTLE_MS = 45_000
"""An overdue sender waits so long for the others, for one incident instead of hundreds: one that
sends every half minute is overdue by so much before the site is. Within the minute after the bound.
"""
TOGETHER_MS = 10 * MINUTE_MS  # those who fall silent within this time may have one cause
MOSTLY = 0.8
LISTED_DEVICES = 10  # addresses in an incident of many
CHECK_MS = HOUR_MS  # at the latest; a habit may have changed
SHIFT_MS = 10_000  # a clock that was set by less moves no bound by more


@dataclass(frozen=True, slots=True)
class SilenceBounds:
    """`factor` times the p99 of the sender's own gaps, at least `least_ms`; from `together` senders
    on, their silence is one incident."""

    factor: float = 4.0
    least_ms: int = 2 * MINUTE_MS
    together: int = 5


@dataclass(slots=True, eq=False)
class OpenSilence:
    """An open incident. Invariant: every member not in `returned` is silent."""

    incident: Incident
    scope: str
    address: str
    members: set[RecordSender] = field(default_factory=set)
    returned: set[RecordSender] = field(default_factory=set)


class SilenceJudge:
    """Invariant: every sender that is not silent stands in `_checks` exactly once, by its
    `check_ms`, which does not change there."""

    def __init__(self, clock: WatchClock, zone: tzinfo, bounds: SilenceBounds) -> None:
        self.senders = RecordSenders(clock, zone)
        self.open: dict[str, OpenSilence] = {}
        self._clock = clock
        self._bounds = bounds
        self._checks: list[RecordSender] = []
        self._overdue: dict[RecordSender, int] = {}
        self._open_of: dict[RecordSender, OpenSilence] = {}
        self._recent: dict[RecordSender, int] = {}
        self._changes: list[Incident] = []
        self._shift_ms = self._judged_shift_ms = clock.now_ms - clock.seen_ms
        self._judged_hour = clock.now_ms // HOUR_MS

    def resume(self, incident: Incident, members: Sequence[tuple[str, str]]) -> None:
        """Go on with an open incident of an earlier process."""
        detail = incident.detail
        scope = detail.get("scope", DEVICE)
        found = OpenSilence(incident, scope, detail.get("address", ""))
        for member_scope, address in members:
            sender = self.senders.add(member_scope, address, "")
            if sender is not None:
                sender.is_silent = True
                found.members.add(sender)
                self._open_of[sender] = found
        self.open[incident.incident_id] = found

    def seen(self, sightings: Mapping[tuple[str, str], int]) -> None:
        """Records since the last call, by device and server (empty: none)."""
        above: dict[RecordSender, int] = {}
        for (camera_ip, server), count in sightings.items():
            sender = self.senders.add(DEVICE, camera_ip, server)
            if sender is None:
                continue
            if server:
                sender.server = server
            self._on_records(sender, count)
            for one in self.senders.above(sender):
                above[one] = above.get(one, 0) + count
        for one, count in above.items():
            self._on_records(one, count)

    def judge(self) -> list[Incident]:
        """What has opened and ended by now."""
        now_ms = self._clock.seen_ms
        for sender in self.senders.end_hour():
            self._forget(sender)
        for sender in self.senders.new:
            if not sender.is_silent:
                self._schedule(sender, now_ms)
        self.senders.new.clear()
        self._check_all_again(now_ms)
        while self._checks and (self._checks[0].check_ms or 0) <= now_ms:
            sender = heapq.heappop(self._checks)
            sender.check_ms = None
            self._check(sender, now_ms)
        self._settle(now_ms)
        changes, self._changes = self._changes, []
        return changes

    def members(self, incident_id: str) -> list[tuple[str, str]]:
        """Who belongs to an open incident, for the watch's own file."""
        found = self.open.get(incident_id)
        return [one.key for one in found.members - found.returned] if found else []

    # -- hearing -----------------------------------------------------------------------------

    def _on_records(self, sender: RecordSender, count: int) -> None:
        self.senders.record(sender, count)
        if sender.is_silent:
            self._end_silence(sender)

    def _end_silence(self, sender: RecordSender) -> None:
        sender.is_silent, sender.is_whole_hour = False, False
        self._overdue.pop(sender, None)
        found = self._open_of.pop(sender, None)
        if found is not None:
            found.returned.add(sender)
            if 2 * len(found.returned) > len(found.members):
                self._close(found)
        self._schedule(sender, self._clock.seen_ms + self._bounds.least_ms)

    def _close(self, found: OpenSilence, reason: str = "") -> None:
        now_ms = self._clock.seen_ms
        del self.open[found.incident.incident_id]
        for sender in found.members - found.returned:
            self._open_of.pop(sender, None)
            sender.is_silent, sender.is_whole_hour, sender.last_ms = False, False, now_ms
            sender.is_changed = True
            self._schedule(sender, now_ms + self._bounds.least_ms)
        ended_ms = max(self._clock.now_ms, found.incident.opened_at_ms)
        detail = found.incident.detail | _members_detail(found.members)
        detail |= {"silent_ms": str(ended_ms - found.incident.opened_at_ms)}
        detail |= {"reason": reason} if reason else {}
        self._changes.append(
            msgspec.structs.replace(
                found.incident, state="closed", closed_at_ms=ended_ms, detail=detail
            )
        )

    def _forget(self, sender: RecordSender) -> None:
        """It was taken away: what it still stands in ends."""
        self._overdue.pop(sender, None)
        self._recent.pop(sender, None)
        found = self._open_of.pop(sender, None)
        if found is not None:
            found.returned.add(sender)
            if 2 * len(found.returned) > len(found.members):
                self._close(found, "forgotten")

    # -- checking ----------------------------------------------------------------------------

    def _schedule(self, sender: RecordSender, at_ms: int) -> None:
        if sender.check_ms is None:
            sender.check_ms = at_ms
            heapq.heappush(self._checks, sender)

    def _check_all_again(self, now_ms: int) -> None:
        """Bounds have moved: an hour that ended has taught; or the host's clock was set or nothing
        could be seen for a while, and goes on evenly: silences lie in other hours than before."""
        before_ms, self._shift_ms = self._shift_ms, self._clock.now_ms - now_ms
        hour = self._clock.now_ms // HOUR_MS
        is_set = abs(before_ms - self._judged_shift_ms) > SHIFT_MS and before_ms == self._shift_ms
        if is_set or hour != self._judged_hour:
            self._judged_shift_ms, self._judged_hour = before_ms, hour
            waiting, self._checks = self._checks, []
            for sender in waiting:
                sender.check_ms = None
                self._check(sender, now_ms)

    def _check(self, sender: RecordSender, now_ms: int) -> None:
        if sender.is_silent or self.senders.by_key.get(sender.key) is not sender:
            return
        due_ms = None
        if sender.scope == DEVICE or sender.devices > 1:
            due_ms = self.senders.due_ms(sender, self._bounds.factor, self._bounds.least_ms)
        if due_ms is None or due_ms > now_ms:
            latest_ms = now_ms + CHECK_MS
            self._schedule(sender, latest_ms if due_ms is None else min(latest_ms, due_ms))
            return
        sender.is_silent = True
        self._overdue[sender] = self._recent[sender] = now_ms

    # -- opening -----------------------------------------------------------------------------

    def _settle(self, now_ms: int) -> None:
        """Open what has been overdue for long enough, the widest scope first."""
        self._recent = {s: at for s, at in self._recent.items() if now_ms - at < TOGETHER_MS}
        ready = [s for s, at in self._overdue.items() if now_ms - at >= SETTLE_MS]
        for sender in sorted(ready, key=lambda one: SCOPES.index(one.scope)):
            if sender in self._overdue:
                self._open_one(sender)

    def _open_one(self, sender: RecordSender) -> None:
        group, wider = self._group_of(sender), self._overdue_above(sender)
        if group is not None:
            self._join(group, [sender])
        elif wider is not None:
            self._open(wider.scope, wider.address, wider)
        elif sender.scope in (SITE, DISTRICT):
            self._open(sender.scope, sender.address, sender)
        elif self._is_common(DISTRICT, sender.district, sender):
            self._open(DISTRICT, sender.district, sender)
        elif not sender.district and self._is_common(SITE, SITE, sender):
            self._open(SITE, SITE, sender)
        elif sender.scope == SERVER or self._is_common(SERVER, sender.server, sender):
            self._open(SERVER, sender.server or sender.address, sender)
        else:
            self._open(DEVICE, sender.address, sender)

    def _group_of(self, sender: RecordSender) -> OpenSilence | None:
        for found in self.open.values():
            if found.scope != DEVICE and _covers(found.scope, found.address, sender):
                return found
        return None

    def _overdue_above(self, sender: RecordSender) -> RecordSender | None:
        """The widest that it hangs on and that is overdue as well, if not yet for long."""
        names = ((SITE, SITE), (DISTRICT, sender.district), (SERVER, sender.server))
        found = (self.senders.by_key.get(name) for name in names if name != sender.key)
        return next((one for one in found if one is not None and one in self._overdue), None)

    def _is_common(self, scope: str, address: str, sender: RecordSender) -> bool:
        """Whether enough others fell silent lately. More than a server only, if they do not mostly
        hang on one."""
        fallen = [s for s in self._recent if s.is_silent and _covers(scope, address, s)]
        if not address or len(fallen) < self._bounds.together:
            return False
        server = sender.address if sender.scope == SERVER else sender.server
        behind_one = sum(_covers(SERVER, server, s) for s in fallen)
        return scope == SERVER or behind_one < MOSTLY * len(fallen)

    def _join(self, group: OpenSilence, senders: Iterable[RecordSender]) -> None:
        for sender in senders:
            self._overdue.pop(sender, None)
            group.members.add(sender)
            group.returned.discard(sender)
            self._open_of[sender] = group

    def _open(self, scope: str, address: str, first: RecordSender) -> None:
        members = {first, *(s for s in self._overdue if _covers(scope, address, s))}
        if scope == DEVICE:
            members = {first}
        began_ms = self._clock.wall_ms(max(one.last_ms for one in members))
        due_ms = self.senders.due_ms(first, self._bounds.factor, self._bounds.least_ms)
        bound_ms = (due_ms or self._clock.seen_ms) - first.last_ms
        incident = self._incident(scope, address, first, began_ms)
        incident.detail.update(
            silent_ms=str(self._clock.now_ms - began_ms), bound_ms=str(bound_ms),
            **_members_detail(members),
        )  # fmt: skip
        found = OpenSilence(incident, scope, address)
        self.open[incident.incident_id] = found
        self._join(found, members)
        self._changes.append(incident)

    def _incident(self, scope: str, address: str, first: RecordSender, began_ms: int) -> Incident:
        register = self.senders.register
        device = register.device_by_ip.get(address) if scope == DEVICE else None
        checkpoint = register.checkpoint_by_id.get(device.checkpoint_id) if device else None
        place = {"place": checkpoint.name, "place_en": checkpoint.name_en} if checkpoint else {}
        return Incident(
            incident_id=f"silence:{scope}:{address}:{began_ms}",
            kind="silence",
            state="open",
            opened_at_ms=began_ms,
            severity="warning" if scope == DEVICE else "critical",
            camera_ip=address if scope == DEVICE else "",
            recognizer_ip=first.server if scope == DEVICE else (address if scope == SERVER else ""),
            checkpoint_id=checkpoint.checkpoint_id if checkpoint else "",
            district_id=address if scope == DISTRICT else first.district * (scope != SITE),
            detail={"scope": scope, "address": address, **place},
        )


def _covers(scope: str, address: str, sender: RecordSender) -> bool:
    """Whether a sender hangs on the one of this scope and address, or is it."""
    if scope == SITE or sender.key == (scope, address):
        return True
    above = {SERVER: sender.server, DISTRICT: sender.district}.get(scope)
    return bool(address) and address == above


def _members_detail(members: Iterable[RecordSender]) -> dict[str, str]:
    """How many devices, and the addresses of the first."""
    found = sorted(one.address for one in members if one.scope == DEVICE)
    if len(found) < 2:
        return {}
    listed = " ".join(found[:LISTED_DEVICES]) + (" …" if len(found) > LISTED_DEVICES else "")
    return {"devices": str(len(found)), "addresses": listed}
