"""What the edge counts: totals that survive restarts (from the spool) and series for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from bus.metrics.text import metrics_text
from bus.runtime import wall_clock
from bus.runtime.tasks import RequestFailures
from ingest.edge.admission import AdmittedRecord
from ingest.edge.arrivals import ArrivalMeter
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.sites.site_route import SECOND, SiteRoute
from ingest.edge.warned_devices import WarnedDevices
from ingest.pictures.writer import PictureWriter
from ingest.spool import Spool

# Beyond this many addresses a device is counted as "other": a stranger must not fill our memory.
MAX_DEVICES = 5_000
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class _ReadCounter(Collector):
    """A total that is kept elsewhere; Prometheus' own Counter can only be counted up."""

    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The total as it is now."""
        yield CounterMetricFamily(self._name, self._text, value=self._read())


class Meters:
    """One registry per app, so that several live in one test process."""

    def __init__(
        self,
        spool: Spool,
        forwarder: SpoolForwarder,
        picture_writer: PictureWriter,
        route: SiteRoute,
        arrivals: ArrivalMeter,
    ) -> None:
        self._spool, self._forwarder, self._picture_writer = spool, forwarder, picture_writer
        self._route, self._arrivals = route, arrivals
        self._devices: set[str] = set()
        self.registry = CollectorRegistry()
        # Apart, because addresses of cameras are not for everybody who may probe.
        self._device_registry = CollectorRegistry()
        self.warned = WarnedDevices()
        self.failures = RequestFailures()
        self._record_series()
        self._device_series()
        self._request_series()
        self._spool_series()
        if route.has_second:
            self._second_site_series()
        self._picture_series()

    def _record_series(self) -> None:
        self._records = Counter(
            "databus_edge_records",
            "Records by class and outcome (accepted, the reason of rejection, refused).",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self._clock_faults = Counter(
            "databus_edge_clock_faults",
            "Accepted records whose capture time cannot be true; ordered by their arrival.",
            ["kind"],
            registry=self.registry,
        )
        self._warned = Counter(
            "databus_edge_warned_records",
            "Accepted records of which something is lost or doubtful, as their answers say.",
            ["kind"],
            registry=self.registry,
        )

    def _device_series(self) -> None:
        self._by_device = Counter(
            "databus_edge_device_records",
            "Records by device and outcome (accepted, rejected, refused).",
            ["camera_ip", "outcome"],
            registry=self._device_registry,
        )
        self._clock_faults_by_device = Counter(
            "databus_edge_device_clock_faults",
            "The same by device.",
            ["camera_ip"],
            registry=self._device_registry,
        )
        self._warned_by_device = Counter(
            "databus_edge_device_warned_records",
            "The same by device.",
            ["camera_ip"],
            registry=self._device_registry,
        )

    def _request_series(self) -> None:
        self.abandoned = Counter(
            "databus_edge_abandoned_requests",
            "Requests whose sender left, or fell silent, before they were whole.",
            registry=self.registry,
        )
        self.answer_seconds = Histogram(
            "databus_edge_answer_seconds",
            "From the whole request to its answer.",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._counter(
            "failed_requests", "Requests answered 500, the log says why.",
            lambda: self.failures.count,
        )  # fmt: skip

    def _spool_series(self) -> None:
        spool, forwarder = self._spool, self._forwarder
        self._gauge("spool_bytes", "Bytes of the spool's bound.", lambda: spool.waiting_bytes)
        self._gauge("spool_backlog", "Messages that wait for the bus.", self._backlog)
        self._counter("spooled", "Messages ever spooled.", lambda: spool.end_sequence)
        self._counter(
            "drained", "Messages ever acknowledged by the bus.", lambda: spool.drained_sequence
        )
        self._counter("spool_damaged", "Messages lost to damaged files.", lambda: spool.damaged)
        self._counter("producer_failures", "Producers given up.", lambda: forwarder.failures)

    def _picture_series(self) -> None:
        pictures = self._picture_writer
        self._counter("pictures_kept", "Pictures made durable.", lambda: pictures.stored)
        self._counter("pictures_lost", "Pictures given up.", lambda: pictures.lost)
        self._gauge(
            "pictures_waiting_bytes", "Pictures that wait.", lambda: pictures.waiting_bytes
        )

    def _second_site_series(self) -> None:
        spool, route = self._spool, self._route
        self._gauge(
            "kept_records", "Messages kept until the other site has them.",
            lambda: spool.retained_messages,
        )
        self._gauge("kept_bytes", "Bytes kept for that alone.", lambda: spool.retained_bytes)
        self._gauge(
            "uncovered_records",
            "Messages deleted before the other site had them; above 0 the RPO is not 0.",
            lambda: spool.uncovered_messages,
        )
        self._gauge(
            "sends_to_second_site", "1 where records go to the second site, else 0.",
            lambda: int(route.active == SECOND),
        )
        self._gauge(
            "is_moving", "1 while the other site is sent what it lacks, else 0.",
            lambda: int(route.moving_to is not None),
        )
        self._counter(
            "resent_records", "Kept messages that a move has sent to the other site.",
            lambda: self._forwarder.resent,
        )  # fmt: skip

    def count_admitted(self, admitted: Iterable[AdmittedRecord]) -> None:
        """After the spool has them."""
        for record in admitted:
            self._records.labels(record.kind, record.reason or "accepted").inc()
            outcome = "rejected" if record.reason else "accepted"
            self._by_device.labels(self._device(record.camera_ip), outcome).inc()
            if record.is_clock_fault:
                self._clock_faults.labels(record.kind).inc()
                self._clock_faults_by_device.labels(self._device(record.camera_ip)).inc()
            if record.faults or record.warnings:
                self._count_warned(record)

    def _count_warned(self, record: AdmittedRecord) -> None:
        camera_ip = self._device(record.camera_ip)
        self._warned.labels(record.kind).inc()
        self._warned_by_device.labels(camera_ip).inc()
        messages_of = {one.field: (one.message, one.message_zh) for one in record.warnings}
        messages_of |= {one.field: (one.message, one.message_zh) for one in record.faults}
        for field, messages in messages_of.items():
            self.warned.add(camera_ip, field, *messages, wall_clock.now_ms())

    def count_refused(self, refused: Iterable[AdmittedRecord]) -> None:
        """Answered 503: not arrived, the sender keeps them."""
        for record in refused:
            self._records.labels(record.kind, "refused").inc()
            self._by_device.labels(self._device(record.camera_ip), "refused").inc()

    def text(self, *, with_devices: bool) -> bytes:
        """Prometheus' text format; the series by device name the cameras' addresses."""
        devices = metrics_text(self._device_registry) if with_devices else b""
        return metrics_text(self.registry) + devices

    def status(self) -> dict[str, object]:
        """The account's view; record totals are of the spool's whole life, not of this process."""
        accepted: dict[str, int] = {}
        rejected: dict[str, dict[str, int]] = {}
        for tally, count in self._spool.totals.items():
            kind, _, outcome = tally.partition("/")
            if outcome == "accepted":
                accepted[kind] = count
            else:
                rejected.setdefault(kind, {})[outcome.partition("/")[2]] = count
        counters = accepted.pop("sent", 0)
        accepted.pop("refused", 0)  # no records have arrived with them
        kinds = accepted.keys() | rejected.keys()
        return {
            "arrived": {k: accepted.get(k, 0) + sum(rejected.get(k, {}).values()) for k in kinds},
            "accepted": accepted,
            "rejected": rejected,
            "counters": counters,
            "spooled": self._spool.end_sequence,
            "drained": self._spool.drained_sequence,
            "backlog": self._backlog(),
            "untold": self._arrivals.unreported,
            "damaged": self._spool.damaged,
            "spool_bytes": self._spool.waiting_bytes,
            **self._second_site(),
            "producer_failures": self._forwarder.failures,
            "pictures": {
                "kept": self._picture_writer.stored,
                "lost": self._picture_writer.lost,
                "waiting_bytes": self._picture_writer.waiting_bytes,
            },
        }

    def _second_site(self) -> dict[str, object]:
        if not self._route.has_second:
            return {}
        state, spool = self._route.state, self._spool
        uncovered = spool.uncovered_messages
        return {
            "second_site": {
                "active": state.active,
                "moving_to": state.moving_to or "",
                "moves": state.moves,
                "cluster_ids": state.cluster_ids,
                "kept_records": spool.retained_messages,
                "kept_bytes": spool.retained_bytes,
                "uncovered_records": uncovered,
                "is_rpo_zero": not uncovered,
                "resent_records": self._forwarder.resent,
            }
        }

    def _backlog(self) -> int:
        return self._spool.end_sequence - self._spool.drained_sequence

    def _device(self, camera_ip: str) -> str:
        if camera_ip in self._devices:
            return camera_ip
        if len(self._devices) >= MAX_DEVICES:
            return "other"
        self._devices.add(camera_ip)
        return camera_ip

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(f"databus_edge_{name}", text, registry=self.registry).set_function(read)

    def _counter(self, name: str, text: str, read: Callable[[], float]) -> None:
        self.registry.register(_ReadCounter(f"databus_edge_{name}", text, read))
