"""The metrics of a dispatcher."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from bus.notify.notice_metrics import NoticeMetrics


class DispatcherMetrics:
    """Of one process: its worker, its recorder, its notices."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.notices = NoticeMetrics(self.registry)
        self.candidates = self._counter("candidates", "Candidates that were decided on.")
        self.alarms = self._counter("alarms", "Alarms that this process has raised.")
        self.rebalances = self._counter("rebalances", "Changes of the group of dispatchers.")
        self.records = self._counter(
            "recorded_messages", "Alarms, incidents and commands that were stored."
        )
        self.works = self._gauge("works", "1 where this one decides, 0 where it stands by.")
        self.records_here = self._gauge("records", "1 where this one stores and notifies.")

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"databus_dispatcher_{name}", text, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"databus_dispatcher_{name}", text, registry=self.registry)
