"""What pages listen to: the hub's deltas and the numbers on top, each prepared once per language,
to the text that goes to the browsers: fifty pages do not make fifty texts of the same rows.

Listeners unsubscribe themselves with their page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from zoneinfo import ZoneInfo

from nicegui import Event

from bus.contracts.alarms import Alarm
from bus.domain.visibility import Viewer, concerns
from monitor.api.kpis import Kpis
from monitor.api.services import ConsoleServices
from monitor.cluster.events import ClusterEvent as ClusterEvent
from monitor.console.rows import Row, live_alarm, live_digest, live_record
from monitor.i18n import LANGUAGES, texts
from monitor.live.alarm_digests import AlarmDigest
from monitor.live.live_state import Delta
from monitor.live.visible_live import VisibleLive


@dataclass(frozen=True)
class Update:
    """One delta with its rows as JSON by language, newest first, made once for all pages. Of alarms
    each row by its id: not every page shows all of them. Of digests the text is made when the first
    page asks for it, and kept for those that show the same of them."""

    delta: Delta
    records: dict[str, str]
    alarm_rows: dict[str, dict[str, str]]
    zone: ZoneInfo
    visible_digests: tuple[AlarmDigest, ...]
    digest_texts: dict[tuple[str, tuple[AlarmDigest, ...]], str] = field(default_factory=dict)

    def alarms(self, language: str) -> str:
        """A list as JSON; empty: no rows."""
        return _json_list(self.alarm_rows[language].values())

    def digests(self, language: str) -> str:
        """A list as JSON; empty: no rows."""
        key = (language, self.visible_digests)
        if key not in self.digest_texts:
            t = texts(language)
            self.digest_texts[key] = _json_list(
                _json(live_digest(one, self.zone, t)) for one in reversed(self.visible_digests)
            )
        return self.digest_texts[key]


@dataclass(frozen=True)
class VisibleUpdates:
    """What one page hears: of alarms only what its reader sees."""

    feed: LiveUpdates
    live: VisibleLive
    only_concerning: Callable[[], bool]
    """Of rows: whether only those are shown that concern the reader first."""

    @property
    def kpis(self) -> Event[Kpis]:
        """The numbers on top."""
        return self.feed.kpis

    @property
    def polls(self) -> Event[list[ClusterEvent]]:
        """See `LiveUpdates.polls`."""
        return self.feed.polls

    def subscribe(self, hear: Callable[[Update], None]) -> None:
        """Calls `hear` with every delta as its reader may see it."""
        self.feed.updates.subscribe(lambda update: hear(self._visible(update)))

    def records_now(self, language: str) -> list[dict[str, object]]:
        """See `LiveUpdates.records_now`."""
        return self.feed.records_now(language)

    def alarms_now(self, language: str, most: int) -> list[dict[str, object]]:
        """The newest alarms and digests, newest first."""
        services = self.feed.services
        register, zone, t = services.register.read(), services.site.tz, texts(language)
        newest = [one for one in self.live.alarms if self._concerns(one)][-most:]
        rows = [(one.raised_at_ms, live_alarm(one, register, zone, t)) for one in newest]
        rows += [
            (one.raised_at_ms, live_digest(one, zone, t))
            for one in self._visible_digests(self.live.digests)
        ]
        rows.sort(key=lambda row: row[0], reverse=True)
        return [row for _, row in rows[:most]]

    def _concerns(self, alarm: Alarm) -> bool:
        viewer = self.live.viewer
        return not self.only_concerning() or concerns(viewer, alarm.district_id, alarm.visible_to)

    def _visible_digests(self, digests: Sequence[AlarmDigest]) -> tuple[AlarmDigest, ...]:
        """Each with the alarms that concern the reader."""
        if not self.only_concerning():
            return tuple(digests)
        viewer = self.live.viewer
        concerning = (
            one.of_districts(partial(concerns, viewer, visible_to=one.visible_to))
            for one in digests
        )
        return tuple(one for one in concerning if one is not None)

    def _visible(self, update: Update) -> Update:
        delta = self.live.visible_delta(update.delta)
        if delta is update.delta:
            return update
        shown = frozenset(one.alarm_id for one in delta.alarms if self._concerns(one))
        alarms = {
            language: {alarm_id: row for alarm_id, row in rows.items() if alarm_id in shown}
            for language, rows in update.alarm_rows.items()
        }
        visible_digests = self._visible_digests(delta.digests)
        return replace(update, delta=delta, alarm_rows=alarms, visible_digests=visible_digests)


@dataclass
class LiveUpdates:
    """One per console."""

    services: ConsoleServices
    updates: Event[Update] = field(default_factory=Event)
    kpis: Event[Kpis] = field(default_factory=Event)
    polls: Event[list[ClusterEvent]] = field(default_factory=Event)
    """After each look at the cluster, what was new in it."""

    def connect(self) -> None:
        """Begin to listen; called once."""
        self.services.hub.add_listener(self._on_delta)
        self.services.kpis.on_change = self.kpis.emit
        self.services.kpis.watched = lambda: bool(self.kpis.callbacks)
        self.services.poller.on_poll = lambda _, new: self.polls.emit(new)
        self.services.poller.watched = lambda: bool(self.polls.callbacks)

    def records_now(self, language: str) -> list[dict[str, object]]:
        """The ring of records, newest first."""
        register, zone = self.services.register.read(), self.services.site.tz
        t = texts(language)
        return [
            live_record(one, register, zone, t) for one in reversed(self.services.hub.live.rows)
        ]

    def seen_by(self, viewer: Viewer, only_concerning: Callable[[], bool]) -> VisibleUpdates:
        """For a page of one person."""
        return VisibleUpdates(self, self.services.live_for(viewer), only_concerning)

    def _on_delta(self, delta: Delta) -> None:
        if not self.updates.callbacks:
            return
        register, zone = self.services.register.read(), self.services.site.tz
        records, alarms = {}, {}
        for language in LANGUAGES:
            t = texts(language)
            records[language] = _json_list(
                _json(live_record(one, register, zone, t)) for one in reversed(delta.rows)
            )
            alarms[language] = {
                one.alarm_id: _json(live_alarm(one, register, zone, t))
                for one in reversed(delta.alarms)
            }
        self.updates.emit(Update(delta, records, alarms, zone, delta.digests))


def _json(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _json_list(rows: Iterable[str]) -> str:
    """Empty: no rows."""
    joined = ",".join(rows)
    return f"[{joined}]" if joined else ""
