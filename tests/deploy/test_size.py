"""The sizes of a city follow from the costs of a record by arithmetic that a reader can repeat."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from deploy.bench.report import FIGURES as BENCH_FIGURES
from deploy.bench.run import KEPT
from deploy.paths import PROJECT_ROOT
from deploy.size import DAY_S, GIB, Demand, RecordCosts, size
from deploy.size_costs import FIGURES, measured_costs, sources

DEMANDS = st.builds(
    Demand,
    cameras=st.integers(1, 1_000_000),
    rate=st.floats(0.001, 10),
    keep_days=st.floats(1, 3_650),
    peak=st.floats(1, 10),
)


def counts(demand: Demand, costs: RecordCosts = RecordCosts()) -> dict[str, int]:
    return {need.what: need.count for need in size(demand, costs)}


def said(*words: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "deploy", *words]
    return subprocess.run(
        command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_a_city_of_twenty_thousand_cameras_by_hand() -> None:
    """10,000 records a second, 30,000 at the peak, with round costs."""
    costs = RecordCosts(
        broker_us=100, copy_us=50, edge_us=200, executor_us=500, bus_bytes=1_000, store_bytes=2_000,
        region_us=400,
    )  # fmt: skip
    found = counts(Demand(cameras=20_000, rate=0.5, keep_days=30, picture_kib=50), costs)
    stored = 10_000 * DAY_S * 30 * 2_000 * 3 / GIB
    assert found == {
        "records at the peak": 30_000,
        "edges": 2,  # 6 cores, 4 usable in each server
        "brokers": 7,  # by disk: 16,894 GiB in 2,800 each; 1.5 by CPU
        "partitions of data.vehicle": 60,
        "executors of ingest and watch list": 30,  # 15 cores, twice
        "executors of latency and quality": 2,
        "region servers": math.ceil(stored / 2_800),
        "disk of the record store": math.ceil(stored),
        "disk of the bus": math.ceil(10_000 * DAY_S * 7 * 1_000 * 3 / GIB),
        "disk of the edges' spools": math.ceil(10_000 * DAY_S * 1_000 / GIB),
        "disk of the pictures": math.ceil(10_000 * DAY_S * 30 * 50 * 1024 / GIB),
    }


def test_a_village_gets_what_survives_a_failure() -> None:
    """Few cameras need no computing power, but copies."""
    found = counts(Demand(cameras=3, rate=0.1, keep_days=30))
    assert (found["edges"], found["brokers"], found["region servers"]) == (2, 3, 3)
    assert found["executors of ingest and watch list"] == 2


@given(DEMANDS)
def test_more_cameras_never_need_less(demand: Demand) -> None:
    """Of anything."""
    larger = Demand(demand.cameras * 2, demand.rate, demand.keep_days, demand.peak)
    less, more = counts(demand), counts(larger)
    assert all(more[what] >= count for what, count in less.items())


@given(DEMANDS)
def test_every_number_shows_its_sum(demand: Demand) -> None:
    """A person can check it."""
    for need in size(demand):
        assert need.count > 0
        assert any(sign in need.sum for sign in "×/")


def test_costs_are_those_that_the_bench_keeps(tmp_path: Path) -> None:
    """The median of the kept runs; what was not measured says that it is assumed."""
    kept = tmp_path / "benchmarks.json"
    row = {"measured": "2026-11-25", "runs": {"ours": [90.0, 110.0, 100.0], "kafka": []}}
    kept.write_text(json.dumps({"cameras-4000-cpu": row}), "utf-8")
    costs, days = measured_costs(kept)
    assert costs == RecordCosts(broker_us=100.0)
    told = {name: where for name, _, where in sources(costs, days)}
    assert told["broker_us"] == "measured 2026-11-25"
    assert told["copy_us"].startswith("assumed")
    assert measured_costs(tmp_path / "nothing.json") == (RecordCosts(), {})


def test_every_measured_cost_is_a_figure_of_the_bench() -> None:
    """A renamed figure would be passed over in silence."""
    assert set(FIGURES.values()) <= set(BENCH_FIGURES)
    assert set(FIGURES) <= {name for name, _, _ in sources(RecordCosts(), {})}


def test_the_command_prints_the_sums_and_where_the_costs_come_from() -> None:
    """As a table for people and as JSON for scripts."""
    words = ["size", "--cameras", "20000", "--rate", "0.5", "--keep", "30d"]
    assert "region servers" in said(*words)
    answer = json.loads(said(*words, "--json"))
    counted = {need["what"]: need["count"] for need in answer["needs"]}
    costs, _ = measured_costs(KEPT)
    assert counted == counts(Demand(cameras=20_000, rate=0.5, keep_days=30), costs)
