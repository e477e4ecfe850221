"""A registry as Prometheus' text, without the series `_created`: when each counter began doubles
the page and says nothing that the start of the process does not.

In: a registry. Out: its text. Never: a second way to write a page of metrics.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]


def metrics_text(registry: CollectorRegistry) -> bytes:
    """In the text format that every version of Prometheus reads."""
    return generate_latest(registry)
