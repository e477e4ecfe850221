"""docs/metrics-applications.md, made from the registries themselves:
`python -m deploy.documentation.metrics_document > docs/metrics-applications.md`.

In: the registries of driver, dispatcher, watch and mirror. Out: Markdown. Never: a process.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from alarm.dispatch.metrics import DispatcherMetrics
from alarm.settings import DispatcherSettings
from dr_mirror.settings import MirrorSettings
from dr_mirror.status.metrics import MirrorMetrics
from monitor.settings import WatchSettings
from monitor.watch.metrics import WatchMetrics
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.settings import StreamsSettings

_HEAD = """# Metrics of the applications

Made from the registries by `python -m deploy.documentation.metrics_document`; do not edit. The
brokers' are in [metrics.md](metrics.md); edge and console show theirs on their own ports at
`/metrics`, each with a line of help.

A process without HTTP of its own shows `/metrics` and `/healthz` on a port for that: 0 in the
settings takes any that is free, -1 none. A port that is taken is said in the log, and the process
goes on without the page. `metrics_host` is the address it listens on; where `[security] page_token`
is set, every page asks for it ([pages](security.md#pages)), else who can reach it can read it.

Rules and alerts for Prometheus are in `deploy/prometheus/`, boards for Grafana in `deploy/grafana/`
(import them; they ask which Prometheus to use). Spark's own metrics are at its UI's
`/metrics/prometheus` where `[streams.conf]` has `"spark.ui.enabled" = "true"`.
"""


def registries() -> dict[str, CollectorRegistry]:
    """By the process that shows them."""
    return {
        f"Drivers of Spark: `[streams] metrics_port`, {StreamsSettings().metrics_port};"
        " an application alone 1 to 4 above": StreamsMetrics().registry,
        f"Dispatcher: `[dispatcher] metrics_port`, {DispatcherSettings().metrics_port}":
            DispatcherMetrics().registry,
        f"Watch: `[watch] metrics_port`, {WatchSettings().metrics_port}": WatchMetrics().registry,
        f"Mirror: `[mirror] metrics_port`, {MirrorSettings().metrics_port}":
            MirrorMetrics().registry,
    }  # fmt: skip


def rows(registry: CollectorRegistry) -> Iterable[tuple[str, str, str, str]]:
    """Name on the page, kind, labels, help."""
    for collector in registry._collector_to_names:
        assert isinstance(collector, MetricWrapperBase)
        for metric in collector.describe():
            suffix = "_total" if metric.type == "counter" else ""
            labels = ", ".join(f"`{name}`" for name in collector._labelnames)
            yield metric.name + suffix, metric.type, labels, metric.documentation


def document() -> str:
    """The page."""
    parts = [_HEAD]
    for title, registry in registries().items():
        parts.append(
            f"\n## {title}\n\n| metric | kind | labels | what it says |\n|---|---|---|---|\n"
        )
        parts += [f"| `{name}` | {kind} | {labels} | {text} |\n"
                  for name, kind, labels, text in rows(registry)]  # fmt: skip
    return "".join(parts)


if __name__ == "__main__":
    print(document(), end="")
