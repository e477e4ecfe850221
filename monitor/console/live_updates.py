"""What pages listen to: the hub's deltas and the numbers on top, each prepared once per language,
to the text that goes to the browsers: fifty pages do not make fifty texts of the same rows.

Listeners unsubscribe themselves with their page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from nicegui import Event

from monitor.api.kpis import Kpis
from monitor.api.services import ConsoleServices
from monitor.cluster.events import ClusterEvent as ClusterEvent
from monitor.console.rows import Row, live_alarm, live_record
from monitor.i18n import LANGUAGES, texts
from monitor.live.live_state import Delta


@dataclass(frozen=True)
class Update:
    """One delta with its rows as JSON in every language, newest first; empty: no rows."""

    delta: Delta
    records: dict[str, str]
    alarms: dict[str, str]


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

    def alarms_now(self, language: str, most: int) -> list[dict[str, object]]:
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
            records[language] = _json(
                [live_record(r, register, zone, t) for r in reversed(delta.rows)]
            )
            alarms[language] = _json(
                [live_alarm(a, register, zone, t) for a in reversed(delta.alarms)]
            )
        self.updates.emit(Update(delta, records, alarms))


def _json(rows: Sequence[Row]) -> str:
    return json.dumps(rows, ensure_ascii=False) if rows else ""
