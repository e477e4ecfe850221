"""Three boards for Grafana: the flow, the brokers, alarms and the watch.

In: the table below. Out: `flow.json`, `brokers.json`, `alarms.json` beside this file, as Grafana
imports them (schema 39, Grafana 11). `python -m deploy.grafana.boards` writes them; a test
compares.
Never: a metric that no page shows; the same test looks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SCHEMA_VERSION = 39
WIDTH, HEIGHT = 8, 8  # of a panel, of a grid 24 wide
COLUMNS = 24 // WIDTH
SOURCE = {"type": "prometheus", "uid": "${source}"}


class Panel(NamedTuple):
    """One curve chart; `query`: expression -> legend. `unit` as Grafana names it."""

    title: str
    query: dict[str, str]
    unit: str = "short"


def _rate(counter: str) -> str:
    """Of each broker, over all topics: the series without a topic."""
    return f'sum by (instance) (rate({counter}{{topic=""}}[1m]))'


BOARDS: dict[str, tuple[str, list[Panel]]] = {
    "flow": (
        "Surveillance data bus: flow",
        [
            Panel(
                "Records at the edge",
                {"databus:edge_records:rate1m": "{{kind}} {{outcome}}"}, "cps",
            ),
            Panel("Records on the bus", {"databus:broker_messages_in:rate1m": "{{topic}}"}, "cps"),
            Panel("Records taken by queries", {"databus:streams_rows:rate1m": "{{query}}"}, "cps"),
            Panel("Spool of the edge", {"databus_edge_spool_backlog": "{{instance}}"}),
            Panel("Backlog of queries", {"databus:streams_backlog_records": "{{query}}"}),
            Panel(
                "Answer of the edge, p99",
                {"databus:edge_answer_seconds:p99_5m": "p99"}, "s",
            ),
            Panel(
                "Batch, by step",
                {"databus_streams_batch_seconds": "{{query}} {{part}}"}, "s",
            ),
            Panel("Records of a batch", {
                "databus_streams_batch_rows": "{{query}}",
                "databus_streams_batch_bound_records": "bound",
            }),
            Panel(
                "Write to commit, p99",
                {"databus:streams_commit_seconds:p99_5m": "{{application}}"}, "s",
            ),
            Panel("Arrived, valid, stored, duplicates", {
                "databus:streams_arrived:rate1m": "{{kind}} arrived",
                "databus:streams_valid:rate1m": "{{kind}} valid",
                'databus:streams_records:rate1m{outcome=~"stored|duplicates"}':
                    "{{kind}} {{outcome}}",
            }, "cps"),
            Panel(
                "Rejected, by reason",
                {"databus:streams_rejected:rate1m": "{{kind}} {{reason}}"}, "cps",
            ),
            Panel("In flight on the bus", {"databus:in_flight_records": "{{topic}}"}),
            Panel(
                "Capture to store, p99",
                {"databus:streams_capture_seconds:p99_5m": "{{kind}}"}, "s",
            ),
        ],
    ),
    "brokers": (
        "Surveillance data bus: brokers",
        [
            Panel("Bytes in", {
                _rate("kafka_server_brokertopicmetrics_bytesin_total"):
                    "{{instance}}",
            }, "Bps"),
            Panel("Bytes out", {
                _rate("kafka_server_brokertopicmetrics_bytesout_total"):
                    "{{instance}}",
            }, "Bps"),
            Panel("Requests", {
                "sum by (request) (rate(kafka_network_requestmetrics_requests_total[1m]))":
                    "{{request}}",
            }, "reqps"),
            Panel("Replicas that are missing", {
                "kafka_server_replicamanager_underreplicatedpartitions": "{{instance}}",
            }),
            Panel("Partitions without a leader", {
                "kafka_controller_kafkacontroller_offlinepartitionscount": "{{instance}}",
            }),
            Panel("Free space", {
                "kafka_log_logmanager_logdirectoryfreebytes": "{{instance}}",
            }, "bytes"),
            Panel("Connections", {
                "kafka_server_socket_server_metrics_connection_count": "{{instance}}",
            }),
            Panel("Follower furthest behind", {
                "kafka_server_replicafetchermanager_maxlag": "{{instance}}",
            }),
            Panel("Batches refused as damaged", {
                "rate(kafka_server_replicamanager_damagedfetches_total[5m])": "{{instance}}",
            }),
        ],
    ),
    "alarms": (
        "Surveillance data bus: alarms and the watch",
        [
            Panel("Alarms", {"databus:dispatcher_alarms:rate5m * 60": "a minute"}),
            Panel(
                "Capture to alarm, p99",
                {"databus:dispatcher_alarm_seconds:p99_5m": "{{kind}}"}, "s",
            ),
            Panel("Who decides", {"databus_dispatcher_works": "{{instance}}"}),
            Panel("Notices", {
                "sum by (notifier, outcome) (rate(databus_notices_total[5m])) * 60":
                    "{{notifier}} {{outcome}}",
            }),
            Panel("Open incidents", {"databus_watch_open_incidents > 0": "{{kind}}"}),
            Panel("Age of answers to the watch", {
                "time() - databus_watch_answered_timestamp_seconds": "{{probe}}",
            }, "s"),
            Panel("Senders whose habits are known", {"databus_watch_senders": "{{instance}}"}),
        ],
    ),
}  # fmt: skip


def board(name: str) -> dict[str, object]:
    """One board as Grafana imports it."""
    title, panels = BOARDS[name]
    return {
        "uid": f"databus-{name}",
        "title": title,
        "tags": ["databus"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "type": "datasource",
                    "query": "prometheus",
                    "label": "Prometheus",
                }
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, object]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": SOURCE,
                "expr": expr,
                "legendFormat": legend,
            }
            for at, (expr, legend) in enumerate(panel.query.items())
        ],
    }


def text(name: str) -> str:
    """The file's content."""
    return json.dumps(board(name), indent=1) + "\n"


def main() -> None:
    """Write all."""
    for name in BOARDS:
        (HERE / f"{name}.json").write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
