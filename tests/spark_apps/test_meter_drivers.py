"""Quality and latency as drivers: topics are all they need, and each incident is told once."""

from __future__ import annotations

import http.client
import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bus.client.kafka.producer import Producer
from bus.contracts.groups import application_group
from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.topics import METER_LATENCY, METER_QUALITY
from bus.domain.times import MINUTE_MS, minute_of
from bus.runtime.wall_clock import now_ms
from deploy.reconcile.topic_totals import read_topic_totals
from deploy.servers.process import free_port, free_range
from monitor.models.histogram import bucket_of
from spark_apps.publish.incidents import read_incidents
from spark_apps.settings import APART, StreamsSettings
from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

NOWHERE = "hbase://127.0.0.1:1/nowhere"
BACK = 100  # minutes: further than what ingest publishes again, within the window
AT_S = (5, 50)  # of its minute: when the cells of a minute are published


class Minutes:
    """Cells of one device and district, minute after minute."""

    def __init__(self, driver: DriverProcess) -> None:
        self.driver = driver
        self.first_ms = minute_of(now_ms()) - BACK * MINUTE_MS
        self.number = 0

    def publish(self, states: str) -> None:
        """One minute per letter; `x` is a bad one."""
        producer = Producer(self.driver.bus, client_id="ingest")
        for state in states:
            minute_ms = self.first_ms + self.number * MINUTE_MS
            self.number += 1
            for attempt, second in enumerate(AT_S, start=1):
                at_ms = minute_ms + second * 1000
                for topic, cell in cells_of(minute_ms, attempt, bad=state == "x"):
                    producer.send(topic, msgspec.json.encode(cell), key="k", timestamp_ms=at_ms)
        assert producer.flush() == 0
        producer.close()

    def behind(self) -> int:
        """How many messages were not worked on."""
        totals = read_topic_totals(self.driver.bus, [METER_LATENCY, METER_QUALITY])
        return sum(
            totals.behind_group(application_group(name), [topic])
            for name, topic in (("latency", METER_LATENCY), ("quality", METER_QUALITY))
        )


def cells_of(minute_ms: int, attempt: int, *, bad: bool) -> list[tuple[str, msgspec.Struct]]:
    """What ingest would publish."""
    buckets = {bucket_of(30_000 if bad else 200): 50}
    return [
        (METER_LATENCY, LatencyCell(
            kind="vehicle", district_id="d1", camera_ip="10.0.0.1", minute_ms=minute_ms,
            buckets=buckets, attempt=attempt)),
        (METER_QUALITY, QualityCell(
            kind="vehicle", camera_ip="10.0.0.1", recognizer_ip="", minute_ms=minute_ms, sent=100,
            arrived=100, valid=20 if bad else 100, rejected={}, attempt=attempt)),
    ]  # fmt: skip


def rows_of(page: str) -> dict[str, float]:
    """Records by query, of our page of metrics."""
    found = re.findall(r'^databus_streams_rows_total\{query="(\w+)"\} (\S+)$', page, re.MULTILINE)
    return {query: float(number) for query, number in found}


def page_of(port: int, path: str) -> str:
    """A page of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, text[:500]
    connection.close()
    return text


@pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
def test_quality_and_latency_need_topics_only_and_tell_each_incident_once(
    driver: DriverProcess, tmp_path: Path
) -> None:
    """kill -9 in the midst of a bad series that lies more than an hour back; no store can be
    reached. Spark's own account of the batches stands on our page and on Spark's."""
    first, sparks = free_range(5), free_port()
    ours = StreamsSettings(metrics_port=first).page_port(APART["meters"])
    alone = DriverProcess(driver.bus, tmp_path, driver.jars, store_url=NOWHERE, name="meters")
    alone.set_streams(
        quality_trigger_ms=100,
        latency_trigger_ms=100,
        metrics_port=first,
        conf={"spark.ui.enabled": "true", "spark.ui.port": str(sparks)},
    )
    minutes = Minutes(alone)
    try:
        minutes.publish("...xxx")  # of the last nobody knows yet that it is over
        alone.start("quality", "latency")
        alone.until(minutes.behind, 0)
        alone.until(lambda: rows_of(page_of(ours, "/metrics")), {"quality": 12, "latency": 12})
        assert "_driver_BlockManager_" in page_of(sparks, "/metrics/prometheus/")
        assert states(minutes) == {("quality", 3): {"open": 1}}, "latency needs a third bad minute"
        alone.kill()
        minutes.publish("x......")
        alone.start("quality", "latency")
        alone.until(minutes.behind, 0)
        once = {"open": 1, "closed": 1}
        expected = {("quality", 3): once, ("latency", 3): once}
        alone.until(lambda: states(minutes), expected)
        assert alone.stop() == 0
        assert states(minutes) == expected
        assert not (alone.data_dir / "store").exists()
        assert "store" not in alone.log.read_text("utf-8")
    finally:
        alone.close()


def states(minutes: Minutes) -> dict[tuple[str, int], Counter[str]]:
    """Of each incident of a device or district: how often which state was told, by its kind and
    the number of its first minute."""
    found: dict[tuple[str, int], Counter[str]] = {}
    for one in read_incidents(minutes.driver.bus):
        if one.detail.get("scope") in ("device", "district"):
            number = (one.opened_at_ms - minutes.first_ms) // MINUTE_MS
            found.setdefault((one.kind, number), Counter())[one.state] += 1
    return found
