"""docs/metrics.md, made from the catalogue: `python -m broker.metrics.document > docs/metrics.md`.

A test compares the page with the committed file.
"""

from __future__ import annotations

from broker.metrics.catalogue import CATALOGUE, MetricInfo, MetricKind

_HEAD = """# Metrics of a broker

Made from `broker/metrics/catalogue.py` by `python -m broker.metrics.document`; do not edit.

Every broker shows its metrics at `http://HOST:PORT/metrics` (`metrics.port` in `[broker]`;
`./databus status` prints where); where `[security] page_token` is set, who reads sends it
([pages](security.md#pages)). The names are those that dashboards for Apache Kafka expect of
Prometheus' JMX exporter. Counters only grow: `rate(NAME[1m])` is the number per second. A summary
has `NAME_count`, `NAME_sum` and quantiles over the newest 1024 values. One that has not happened
yet may be missing from the page.

## When to page an operator

| metric | when |
|---|---|
"""
_TABLE = """
## All

| metric | kind | labels | Kafka's MBean | what it says |
|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    alarms = "".join(f"| `{one.exposed_name}` | {one.alarm} |\n" for one in CATALOGUE if one.alarm)
    return _HEAD + alarms + _TABLE + "".join(map(_row, CATALOGUE))


def _row(one: MetricInfo) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels)
    bean = f"`{one.type}` `{one.name}`"
    kind = "summary" if one.kind is MetricKind.SUMMARY else one.kind.value
    return f"| `{one.exposed_name}` | {kind} | {labels} | {bean} | {one.help} |\n"


if __name__ == "__main__":
    print(page(), end="")
