"""What the brokers' pages say of their cleaners, put together for people."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result

from broker.log.cleaner.uncleanable import CleaningFault
from broker.metrics.registry import Metrics
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.topics import DATA_FACE, DAY_MS, STATE_WATCHLIST, TOPICS
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SecuritySettings
from deploy.product.cleaner_cli import mount
from deploy.servers.databus import start_broker
from monitor.cluster.cleaner_pages import read_cleaners
from monitor.cluster.cleaner_status import (
    DEAD,
    DIRTY_PERCENT,
    LAST_CLEAN_MS,
    OLDEST_DIRTY_MS,
    SINCE_LAST_RUN_MS,
    UNCLEANABLE,
    BrokerCleaner,
    CleanedPartition,
    cleaner_of,
    why_uncleanable,
    worst_first,
)
from monitor.i18n import texts

PARTITION_METRICS = (DIRTY_PERCENT, OLDEST_DIRTY_MS, LAST_CLEAN_MS, UNCLEANABLE)


def line(name: str, topic: str, partition: int, value: float) -> str:
    escaped = topic.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}{{topic="{escaped}",partition="{partition}"}} {value}'


def test_every_figure_of_a_page_is_found_whatever_the_order_and_the_names(
    dice: random.Random,
) -> None:
    """Names of topics are their owners'; ages of -1 are none."""
    for _ in range(200):
        rows, lines = [], [f"{SINCE_LAST_RUN_MS} 1500.0", f"{DEAD} {dice.randrange(2)}"]
        names = {"".join(dice.choices('ab.-_{}=," \\n', k=dice.randint(1, 8))) for _ in range(3)}
        for number, name in enumerate(sorted(names)):
            figures = [dice.random() * 100, dice.choice([-1, 5]), dice.choice([-1, 1 << 40]), 0]
            lines += [
                line(metric, name, number, value)
                for metric, value in zip(PARTITION_METRICS, figures, strict=True)
            ]
            rows.append(
                CleanedPartition(
                    broker=7, topic=name, partition=number, dirty_percent=figures[0],
                    oldest_dirty_ms=5 if figures[1] == 5 else None,
                    last_clean_ms=1 << 40 if figures[2] > 0 else None,
                )
            )  # fmt: skip
        lines += ["# HELP kafka_log_logcleanermanager_x y", "kafka_server_other 3", ""]
        dice.shuffle(lines)
        found = cleaner_of(7, "\n".join(lines))
        assert found.answers
        assert found.since_last_run_ms == 1500
        assert found.partitions == rows


def test_a_page_that_is_none_says_nothing_and_ends_nothing(dice: random.Random) -> None:
    """As of Apache Kafka, an earlier version, or whatever answers at that address."""
    assert cleaner_of(1, "") == BrokerCleaner(broker=1, answers=False)
    names = (*PARTITION_METRICS, SINCE_LAST_RUN_MS, DEAD)
    pieces = ["{", "}", '"', "\\", "topic=", "partition=", ",", " ", "NaN", "1e400", "-1", "٣"]
    for _ in range(2_000):
        page = "".join(dice.choices([*names, *pieces, "\n", "\r", "\x85"], k=dice.randint(1, 30)))
        for one in cleaner_of(1, page).partitions:
            assert one.partition >= 0


def test_what_cannot_be_cleaned_comes_first_then_the_dirtiest() -> None:
    rows = [
        CleanedPartition(broker=1, topic="a", partition=0, dirty_percent=90.0),
        CleanedPartition(broker=1, topic="b", partition=0, dirty_percent=1.0, uncleanable=True),
        CleanedPartition(broker=2, topic="a", partition=0),
        CleanedPartition(broker=2, topic="c", partition=0, dirty_percent=95.0),
    ]
    cleaners = [
        BrokerCleaner(broker=n, answers=True, partitions=[one for one in rows if one.broker == n])
        for n in (1, 2)
    ]
    assert [(one.topic, one.broker) for one in worst_first(cleaners)] == [
        ("b", 1), ("c", 2), ("a", 1), ("a", 2),
    ]  # fmt: skip


def test_a_page_says_of_each_one_that_cannot_be_cleaned_since_when_and_why(
    dice: random.Random,
) -> None:
    """Reasons name files, whose names are the owners' of topics."""
    for _ in range(200):
        reason = "".join(dice.choices('ab/.{}=," :\\', k=dice.randint(1, 12)))
        metrics = Metrics()
        metrics.gauge("LogCleanerManager", "time-since-last-run-ms", lambda: 5)
        metrics.gauge("LogCleanerManager", "Uncleanable", lambda: 1, topic="t", partition="3")
        metrics.gauge(
            "LogCleanerManager", "UncleanableForMs", lambda: 60_000,
            topic="t", partition="3", fault="damaged", reason=reason,
        )  # fmt: skip
        assert cleaner_of(7, metrics.text()).partitions == [
            CleanedPartition(
                broker=7, topic="t", partition=3, uncleanable=True, uncleanable_ms=60_000,
                fault="damaged", reason=reason,
            )
        ]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_kind_of_fault_has_a_sentence_that_says_what_to_do(language: str) -> None:
    """So has one that an earlier broker does not name, and one that only a later one knows."""
    words, said = texts(language), set()
    for fault in (*(one.value for one in CleaningFault), ""):
        row = CleanedPartition(broker=1, topic="t", partition=0, uncleanable=True, fault=fault)
        said.add(why_uncleanable(row, words))
    assert len(said) == len(CleaningFault) + 1
    later = CleanedPartition(broker=1, topic="t", partition=0, fault="of later", reason="R")
    assert why_uncleanable(later, words) == f"R. {words.word('uncleanable', 'unknown')}"


def command_line(bus: BusSettings, *words: str) -> Result:
    app = typer.Typer()
    mount(app)
    settings = SimpleNamespace(bus=bus, security=SecuritySettings())
    return CliRunner().invoke(app, ["cleaner", "status", *words], obj=settings)


def test_a_real_broker_says_of_each_compacted_partition_how_dirty_it_is(tmp_path: Path) -> None:
    """And one that is away does not keep it from answering."""
    broker = start_broker(tmp_path, {"log.cleaner.backoff.ms": "100"})
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(bus, client_id="test")
    admin.ensure_topics([TOPICS[STATE_WATCHLIST], TOPICS[DATA_FACE]])
    producer = Producer(bus, client_id="test")
    producer.send(STATE_WATCHLIST, b"{}", key="a", timestamp_ms=now_ms() - DAY_MS)
    producer.close()
    urls = {1: f"http://127.0.0.1:{broker.metrics_port}/metrics", 2: "http://127.0.0.1:1/metrics"}
    found: list[CleanedPartition] = []
    while not found or found[0].oldest_dirty_ms is None:  # ends by the test's own time limit
        here, away = asyncio.run(read_cleaners(urls))
        found = here.partitions
    assert away == BrokerCleaner(broker=2, answers=False)
    assert here.answers
    assert here.since_last_run_ms is not None
    assert not here.dies
    [row] = found
    assert (row.topic, row.partition, row.dirty_percent) == (STATE_WATCHLIST, 0, 0.0)
    assert row.oldest_dirty_ms is not None
    assert row.oldest_dirty_ms >= DAY_MS
    assert (row.last_clean_ms, row.uncleanable) == (None, False)
    said = json.loads(command_line(bus, f"--brokers=1={urls[1]}", "--json").output)
    assert [one["topic"] for one in said["partitions"]] == [STATE_WATCHLIST]
    assert said["partitions"][0]["bytes"] > 0
    table = command_line(bus, f"--brokers=1={urls[1]},2={urls[2]}")
    assert table.exit_code == 1, "a broker that does not answer"
    assert STATE_WATCHLIST in table.output
    assert "broker 2 does not say anything" in table.output
    admin.close()
    broker.stop()


def test_the_command_and_the_page_name_a_damaged_partition_and_what_to_do(tmp_path: Path) -> None:
    """Of a real broker, whose segment is damaged while it runs."""
    broker = start_broker(
        tmp_path,
        {"log.cleaner.backoff.ms": "100", "log.flush.offset.checkpoint.interval.ms": "500"},
    )
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(bus, client_id="test")
    small_segments = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}
    admin.create_topic(STATE_WATCHLIST, 1, small_segments)
    producer = Producer(bus, client_id="test")
    producer.send(STATE_WATCHLIST, b"{}", key="a", timestamp_ms=now_ms() - DAY_MS)
    producer.flush()
    [segment] = tmp_path.rglob(f"{STATE_WATCHLIST}-0/{0:020d}.log")
    with segment.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"X")
    while len(list(segment.parent.glob("*.log"))) == 1:  # ends by the test's own time limit
        producer.send(STATE_WATCHLIST, b"{}" * 500, key="b", timestamp_ms=now_ms() - DAY_MS)
        producer.flush()
    producer.close()
    urls = {1: f"http://127.0.0.1:{broker.metrics_port}/metrics"}
    row = CleanedPartition(broker=1, topic="", partition=0)
    while not row.uncleanable:
        [here] = asyncio.run(read_cleaners(urls))
        row = worst_first([here])[0] if here.partitions else row
    table = command_line(bus, f"--brokers=1={urls[1]}")
    assert table.exit_code == 1
    said = " ".join(table.output.split())
    assert f"{STATE_WATCHLIST}-0 on broker 1 cannot be cleaned for" in said
    assert "the CRC does not match. Run `databus broker verify` on that broker" in said
    assert segment.name in said
    admin.close()
    broker.stop()
