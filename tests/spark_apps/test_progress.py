"""What Spark tells of a batch becomes metrics."""

from __future__ import annotations

import json
from contextlib import suppress

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.progress.batch_progress import read_progress
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.settings import APART, StreamsSettings

TOLD = {
    "id": "x", "name": "records", "batchId": 7, "numInputRows": 5, "inputRowsPerSecond": 2.5,
    "processedRowsPerSecond": 50.0, "durationMs": {"addBatch": 33, "triggerExecution": 50},
    "sources": [{
        "description": "KafkaV2[…]", "startOffset": None,
        "endOffset": {"data.vehicle": {"0": 10, "1": 4}},
        "latestOffset": {"data.vehicle": {"0": 15, "1": 4}, "data.face": {"0": 3}},
    }],
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_batch_is_counted_and_what_is_behind_is_told_by_topic() -> None:
    """A partition of which nothing was read yet is behind by nothing that is known."""
    metrics = StreamsMetrics()
    for _ in range(2):
        metrics.observe(read_progress(json.dumps(TOLD)))
    value = metrics.registry.get_sample_value
    assert value("databus_streams_rows_total", {"query": "records"}) == 10
    assert value("databus_streams_batch_rows", {"query": "records"}) == 5
    steps = {"query": "records", "part": "addBatch"}
    assert value("databus_streams_batch_seconds", steps) == 0.033
    behind = {"query": "records", "topic": "data.vehicle"}
    assert value("databus_streams_backlog_records", behind) == 5
    assert value("databus_streams_backlog_records", behind | {"topic": "data.face"}) == 0


@given(st.dictionaries(st.sampled_from(sorted(TOLD)), JSON) | JSON)
def test_what_is_no_progress_is_refused_by_name(found: object) -> None:
    with suppress(msgspec.DecodeError):
        StreamsMetrics().observe(read_progress(json.dumps(found, ensure_ascii=False)))


def test_drivers_that_share_a_machine_show_different_pages() -> None:
    streams = StreamsSettings()
    alone = [streams.page_port([name]) for name in streams.applications]
    ports = [streams.page_port(streams.applications), *alone]
    assert len(set(ports)) == 5
    apart = [streams.page_port(few) for few in APART.values()]
    assert len({*apart, ports[0]}) == 1 + len(APART)
    assert StreamsSettings(metrics_port=-1).page_port(["ingest"]) == -1
    assert StreamsSettings(metrics_port=0).page_port(["ingest"]) == 0
