"""The metrics of a dispatcher."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from bus.contracts.alarms import Alarm
from bus.metrics.capture_histogram import CaptureHistogram
from bus.notify.notice_metrics import NoticeMetrics


class DispatcherMetrics:
    """Of one process: its worker, its recorder, its notices."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.notices = NoticeMetrics(self.registry)
        self.candidates = self._counter("candidates", "Candidates that were decided on.")
        self.alarms = self._counter("alarms", "Alarms that this process has raised.")
        self.suppressed = self._counter(
            "suppressed", "Records within the quiet time of an alarm of their target, at its place."
        )
        self._alarm_seconds = CaptureHistogram(
            "databus_dispatcher_alarm_seconds",
            "From the capture to the acknowledgement on `event.alarm`, of alarms raised here.",
            self.registry,
        )
        self.rebalances = self._counter("rebalances", "Changes of the group of dispatchers.")
        self.records = self._counter(
            "recorded_messages", "Alarms, incidents and commands that were stored."
        )
        self.pictures_copied = self._counter(
            "pictures_copied", "Pictures that were copied for an alarm."
        )
        self.pictures_given_up = self._counter(
            "pictures_given_up", "Pictures of alarms that were not there a day after it."
        )
        self.perhaps_sent_before = self._counter(
            "alarms_perhaps_sent_before",
            "Alarms and incidents notified when the site became the primary, or after a restore.",
        )
        self.commands = Counter(
            "databus_dispatcher_commands", "Commands that this process has answered.",
            ["state"], registry=self.registry,
        )  # fmt: skip
        self.decides = self._gauge("decides", "1 where this one decides on commands.")
        self.works = self._gauge("works", "1 where this one decides, 0 where it stands by.")
        self.records_here = self._gauge("records", "1 where this one stores and notifies.")

    def raised(self, alarms: Iterable[Alarm], now_ms: int) -> None:
        """The topic has acknowledged these."""
        for alarm in alarms:
            self.alarms.inc()
            self._alarm_seconds.count(alarm.kind, now_ms - alarm.captured_at_ms)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"databus_dispatcher_{name}", text, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"databus_dispatcher_{name}", text, registry=self.registry)
