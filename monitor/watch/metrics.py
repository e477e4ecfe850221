"""The metrics of the watch: what is open, what it told, when its questions were answered."""

from __future__ import annotations

import time
from collections import Counter as CountOf
from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from bus.contracts.alarms import Incident, IncidentKind
from bus.notify.notice_metrics import NoticeMetrics


class WatchMetrics:
    """Of one watch. The number of probes is that of parts, stages and disks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.notices = NoticeMetrics(self.registry)
        self._open = Gauge(
            "databus_watch_open_incidents", "Incidents without an end.", ["kind"],
            registry=self.registry,
        )  # fmt: skip
        self._notified = Counter(
            "databus_watch_incidents", "Incidents that were told, by their beginning or end.",
            ["kind", "state"], registry=self.registry,
        )  # fmt: skip
        self._answered = Gauge(
            "databus_watch_answered_timestamp_seconds", "When a question was answered last.",
            ["probe"], registry=self.registry,
        )  # fmt: skip
        self.senders = Gauge(
            "databus_watch_senders", "Devices and servers whose habits are known.",
            registry=self.registry,
        )  # fmt: skip

    def changed(self, incidents: Iterable[Incident]) -> None:
        """They begin or end."""
        for one in incidents:
            self._notified.labels(one.kind, one.state).inc()

    def open(self, incidents: Iterable[Incident]) -> None:
        """All that are open now."""
        counts = CountOf(one.kind for one in incidents)
        for kind in get_args(IncidentKind):
            self._open.labels(kind).set(counts[kind])

    def answered(self, probe: str) -> None:
        """A question has its answer."""
        self._answered.labels(probe).set(time.time())
