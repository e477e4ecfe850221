"""What the drivers and the dispatcher count themselves, between two looks at their pages.

In: the pages of a product's processes. Out: means per batch and per record. Never: a page that does
not answer: its numbers are left out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from bus.metrics.read_page import read_page
from deploy.bench.ingest.product import Product
from deploy.settings.composed import load

STEPS = "databus_streams_step_seconds"
CAPTURE, ALARM = "databus_streams_capture_seconds", "databus_dispatcher_alarm_seconds"
TITLES = {CAPTURE: "captured → stored, mean", ALARM: "captured → alarm, mean"}
SUM, COUNT = "_sum", "_count"
TIMEOUT_S = 10.0
_ADDRESS = re.compile(r"metrics: (http://\S+)")

Counts = Mapping[str, tuple[float, float]]
"""By what is counted: seconds, and how often."""


def read_counts(product: Product) -> Counts:
    """The steps and times of all processes so far."""
    found: dict[str, tuple[float, float]] = {}
    for text in _pages(product):
        found |= counts_of(text)
    return found


def counts_of(text: str) -> dict[str, tuple[float, float]]:
    """Of one page, kinds added up."""
    sums: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(text):
        if family.name not in (STEPS, CAPTURE, ALARM):
            continue
        for sample in family.samples:
            if sample.name in (family.name + SUM, family.name + COUNT):
                labels = sample.labels
                own = f"{labels.get('application')}: {labels.get('step')}"
                both = sums.setdefault(TITLES.get(family.name, own), [0.0, 0.0])
                both[sample.name.endswith(COUNT)] += sample.value
    return {name: (seconds, count) for name, (seconds, count) in sums.items()}


def means_ms(before: Counts, after: Counts) -> dict[str, float]:
    """What one of each took between two looks."""
    found = {}
    for name, (seconds, count) in sorted(after.items()):
        first_s, first = before.get(name, (0.0, 0.0))
        if count > first:
            found[name] = (seconds - first_s) / (count - first) * 1000
    return found


def _pages(product: Product) -> Iterator[str]:
    token = load(flags=product.flags).security.page_token
    for log in sorted((product.folder / "log").glob("*.log")):
        addresses = _ADDRESS.findall(log.read_text("utf-8", "replace"))
        for address in addresses[-1:]:
            with contextlib.suppress(OSError):
                yield read_page(address, TIMEOUT_S, token).decode()
