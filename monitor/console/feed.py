"""What pages listen to: the hub's deltas and the numbers on top, each prepared once per language.

In: deltas. Out: NiceGUI events, which unsubscribe themselves with their page.
Never: work per client that can be done once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nicegui import Event

from monitor.api.kpis import Kpis
from monitor.api.services import Services
from monitor.cluster.events import Event as ClusterEvent
from monitor.console.i18n import LANGUAGES, texts
from monitor.console.rows import live_alarm, live_record
from monitor.hub.live import Delta


@dataclass(frozen=True)
class Update:
    """One delta with its rows in every language."""

    delta: Delta
    records: dict[str, list[dict[str, Any]]]
    alarms: dict[str, list[dict[str, Any]]]


@dataclass
class Feed:
    """One per console."""

    services: Services
    updates: Event[Update] = field(default_factory=Event)
    kpis: Event[Kpis] = field(default_factory=Event)
    looks: Event[list[ClusterEvent]] = field(default_factory=Event)
    """After each look at the cluster, what was new in it."""

    def connect(self) -> None:
        """Begin to listen; called once."""
        self.services.hub.listen(self._on_delta)
        self.services.kpis.on_change = self.kpis.emit
        self.services.kpis.watched = lambda: bool(self.kpis.callbacks)
        self.services.watcher.on_look = lambda _, new: self.looks.emit(new)
        self.services.watcher.watched = lambda: bool(self.looks.callbacks)

    def records_now(self, language: str) -> list[dict[str, Any]]:
        """The ring of records, newest first."""
        register, zone = self.services.register.read(), self.services.site.tz
        t = texts(language)
        return [
            live_record(one, register, zone, t) for one in reversed(self.services.hub.live.rows)
        ]

    def alarms_now(self, language: str, most: int) -> list[dict[str, Any]]:
        """The newest alarms, newest first."""
        register, zone = self.services.register.read(), self.services.site.tz
        t = texts(language)
        newest = self.services.hub.live.alarms[-most:]
        return [live_alarm(one, register, zone, t) for one in reversed(newest)]

    def _on_delta(self, delta: Delta) -> None:
        if not self.updates.callbacks:
            return
        register, zone = self.services.register.read(), self.services.site.tz
        records, alarms = {}, {}
        for language in LANGUAGES:
            t = texts(language)
            records[language] = [live_record(r, register, zone, t) for r in reversed(delta.rows)]
            alarms[language] = [live_alarm(a, register, zone, t) for a in reversed(delta.alarms)]
        self.updates.emit(Update(delta, records, alarms))
