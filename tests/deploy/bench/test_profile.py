"""The profile of a batch: what the kernel and Spark tell, read and added up."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from rich.console import Console

from deploy.bench.ingest.process_cpu import (
    TICKS_PER_S,
    CpuTime,
    ProcessCpu,
    group_of,
    part_of,
    read_stat,
    spent,
)
from deploy.bench.ingest.product import Arrangement
from deploy.bench.profile.batch_steps import ANALYSIS, LAUNCH, PLANNING, TASKS, steps_of
from deploy.bench.profile.driver_pages import TITLES, counts_of, means_ms
from deploy.bench.profile.measure import RateProfile, parse_arrangement, parse_rates
from deploy.bench.profile.spark_events import (
    PYTHON_RUN,
    SparkEvents,
    UnreadableEvent,
    read_events,
)
from deploy.bench.profile.tables import tables
from deploy.errors import OperatorError, Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.setup.java import java_home
from spark_apps.progress.metrics import StreamsMetrics

JOB = """
import sys
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings
from deploy.bench.profile.measure import event_log
from pathlib import Path

def work(batches):
    yield from batches

def on_batch(frame, number):
    frame.selectExpr("value").mapInArrow(work, "value long").repartition(2).collect()

settings = StreamsSettings(master="local[2]", work_in="executors", conf=event_log(Path(sys.argv[1])))
spark = open_session(settings, 1)
source = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
query = source.writeStream.queryName("numbers").foreachBatch(on_batch).start()
while (query.lastProgress or {}).get("batchId", 0) < 3:
    query.awaitTermination(0.2)
query.stop()
spark.stop()
"""
QUERY = "0000-1"


def _events() -> list[dict[str, object]]:
    """One batch of two tasks in each of two stages, and a trigger that found nothing."""
    task = {"Event": "SparkListenerTaskEnd", "Stage ID": 7,
            "Task Info": {"Launch Time": 1130, "Finish Time": 1150},
            "Task Metrics": {"Executor Run Time": 12, "Executor CPU Time": 5_000_000,
                             "Shuffle Write Metrics": {"Shuffle Write Time": 2_000_000}}}  # fmt: skip
    python = [{"Name": PYTHON_RUN, "Value": "16"}, {"Name": "another", "Value": "words"}]
    progress = {"id": QUERY, "name": "ingest", "timestamp": "1970-01-01T00:00:01.000Z",
                "durationMs": {"triggerExecution": 300, "addBatch": 200, "walCommit": 10},
                "sources": [{"numInputRows": 40}]}  # fmt: skip
    return [
        {"Event": "SparkListenerApplicationStart", "App Name": "streams-ingest"},
        {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
         "executionId": 3, "time": 1100},
        {"Event": "SparkListenerJobStart", "Job ID": 1, "Submission Time": 1120,
         "Stage IDs": [7, 8],
         "Properties": {"sql.streaming.queryId": QUERY, "spark.sql.execution.id": "3"}},
        task,
        {"Event": "SparkListenerStageCompleted", "Stage Info": {
            "Stage ID": 7, "Submission Time": 1121, "Completion Time": 1152, "Number of Tasks": 1,
            "Accumulables": python}},
        task | {"Stage ID": 8, "Task Info": {"Launch Time": 1155, "Finish Time": 1170}},
        {"Event": "SparkListenerJobEnd", "Job ID": 1, "Completion Time": 1175},
        {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd",
         "executionId": 3, "time": 1180},
        {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
         "progress": progress},
        {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
         "progress": progress | {"durationMs": {"triggerExecution": 5, "latestOffset": 5},
                                 "timestamp": "1970-01-01T00:00:02.000Z"}},
        {"Event": "SparkListenerSomethingNew", "what": 1},
    ]  # fmt: skip


def _read(events: list[dict[str, object]]) -> SparkEvents:
    return read_events([json.dumps(event) for event in events] + ['{"Event":"SparkListenerTa'])


def test_each_step_of_a_batch_is_told_by_its_events() -> None:
    """What lies between two of Spark's events is a step; a batch outside the stretch is none."""
    found = _read(_events())
    assert found.application == "streams-ingest"
    [steps] = steps_of(found, 0, 10_000)
    assert (steps.query, steps.batches, steps.triggers_without) == ("ingest", 1, 1)
    assert (steps.records, steps.jobs, steps.tasks) == (40, 1, 2)
    assert steps.steps_ms[PLANNING] == 20
    assert steps.steps_ms[LAUNCH] == 10
    assert steps.steps_ms[TASKS] == 40
    assert steps.steps_ms[ANALYSIS] == 120
    assert steps.steps_ms["offset log"] == 10
    assert steps.steps_ms["tasks: CPU of running, in Java"] == 10
    assert steps.steps_ms["tasks: shuffle written"] == 4
    assert steps.steps_ms[f"stage 1: {PYTHON_RUN}"] == 16
    assert steps_of(found, 0, 900) == []


def test_the_tables_have_a_row_for_each_step_and_a_column_for_each_rate() -> None:
    profiles = [
        RateProfile(rate=rate, cores=0.5, parts=[], means_ms={"ingest: begin": 4.0},
                    queries=steps_of(_read(_events()), 0, 10_000))
        for rate in (0, 100)
    ]  # fmt: skip
    console = Console(width=120, record=True, file=StringIO())
    for table in tables(profiles):
        console.print(table)
    text = console.export_text()
    for wanted in ("a batch of ingest", "100/s", PLANNING, "ingest: begin"):
        assert wanted in text


_numbers = st.integers(-(1 << 70), 1 << 70)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.integers(0, 9), st.data())
def test_any_value_in_any_place_of_an_event_is_read_or_named(number: int, data: st.DataObject) -> None:
    """Spark may write others one day; nothing but `UnreadableEvent` leaves the reader."""
    event = _events()[number]
    place: dict[str, object] = event
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        inner = place[key]
        if not isinstance(inner, dict) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(_values)
    with contextlib.suppress(UnreadableEvent):
        read_events([json.dumps(event)])


@given(st.lists(st.text(max_size=60) | _values.map(json.dumps), max_size=5))
def test_lines_that_are_no_events_are_passed_over(lines: list[str]) -> None:
    assert read_events(lines) == SparkEvents()


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_spark_s_own_log_of_a_stream_gives_steps(tmp_path: Path) -> None:
    """The names of events, metrics and properties are those of the Spark that runs here."""
    try:
        home = java_home()
    except Unavailable as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)], cwd=PROJECT_ROOT, timeout=180, check=False,
        env={**os.environ, "JAVA_HOME": str(home)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    [log] = tmp_path.iterdir()
    found = read_events(log.read_text(encoding="utf-8").splitlines())
    [steps] = steps_of(found, 0, 1 << 50)
    assert steps.query == "numbers"
    assert steps.batches >= 3
    assert steps.jobs == 1
    assert steps.tasks >= 2
    assert steps.records > 0
    for name in (PLANNING, TASKS, "the whole trigger", "tasks: CPU of running, in Java"):
        assert steps.steps_ms[name] > 0, (name, steps)
    assert steps.steps_ms[f"stage 1: {PYTHON_RUN}"] > 0


@given(st.text(st.characters(exclude_characters="\n"), max_size=15), st.lists(st.integers(0, 1 << 40), min_size=11, max_size=50))
def test_a_name_of_the_kernel_may_hold_brackets_and_blanks(name: str, numbers: list[int]) -> None:
    """`(C2 (a) b)`: only the last bracket ends it."""
    line = f"17 ({name}) S {' '.join(map(str, numbers))}\n"
    if len(numbers) < 12:
        with pytest.raises(ValueError, match="stat"):
            read_stat(line)
        return
    assert read_stat(line) == CpuTime(name, (numbers[10] + numbers[11]) / TICKS_PER_S)


@given(st.text(max_size=40))
def test_any_other_line_of_the_kernel_is_an_error_of_value(line: str) -> None:
    with contextlib.suppress(ValueError):
        assert read_stat(line).name in line


def test_the_kernel_s_count_of_a_process_is_that_of_everybody_else() -> None:
    own = read_stat(Path("/proc/self/stat").read_text(encoding="utf-8"))
    times = psutil.Process().cpu_times()
    assert abs(times.user + times.system - own.seconds) < 2.0


@pytest.mark.parametrize(
    ("role", "words", "owner", "part"),
    [
        ("broker-1", ["python", "-m", "broker"], "broker-1", "broker-1"),
        ("streams", ["/usr/bin/java", "-cp", "x", "SparkSubmit"], "streams", "driver's JVM of streams"),
        ("streams", ["/x/bin/python", "-m", "spark_apps.driver"], "streams", "driver's Python of streams"),
        ("streams", ["python", "-m", "pyspark.daemon", "pyspark.worker"], "streams",
         "Python workers of streams"),
        ("spark-worker-1", ["java", "org.apache.spark.executor.CoarseGrainedExecutorBackend"],
         "streams-ingest", "executors' JVMs of streams-ingest"),
        ("spark-worker-1", ["python3", "-m", "pyspark.daemon", "pyspark.worker"], "streams-ingest",
         "Python workers of streams-ingest"),
        ("spark-worker-1", ["java", "org.apache.spark.deploy.worker.Worker"], "spark-worker-1",
         "spark-worker-1"),
    ],
)  # fmt: skip
def test_every_process_has_a_part(role: str, words: list[str], owner: str, part: str) -> None:
    assert part_of(role, words, owner) == part


def test_threads_that_differ_by_a_number_are_one_row() -> None:
    names = ["C1 CompilerThre", "shuffle-client-4-1", "Thread-5", "17"]
    assert [group_of(name) for name in names] == [
        "C1 CompilerThre", "shuffle-client", "Thread", "17",
    ]  # fmt: skip


def test_a_process_that_began_between_two_readings_counts_whole_and_one_that_ended_not_at_all() -> None:
    """Its last reading is not known."""
    before = {1: ProcessCpu("a", 10.0, {1: CpuTime("x-1", 4.0)}), 2: ProcessCpu("b", 7.0, {})}
    after = {
        1: ProcessCpu("a", 14.0, {1: CpuTime("x-1", 5.0), 5: CpuTime("x-2", 1.0)}),
        3: ProcessCpu("a", 2.0, {}),
    }
    [part] = spent(before, after, 10.0)
    assert (part.part, part.processes, part.cores) == ("a", 2, 0.6)
    assert part.threads == {"x": 0.2}


def test_what_drivers_count_between_two_looks_is_a_mean() -> None:
    """Of steps, and of records of all kinds together; what did not happen meanwhile is left out."""
    metrics = StreamsMetrics()
    with metrics.step("ingest", "begin"):
        pass
    with pytest.raises(OSError, match="away"), metrics.step("ingest", "commit"):
        raise OSError("away")
    before = counts_of(generate_latest(metrics.registry).decode())
    assert before["ingest: begin"][1] == 1
    assert "ingest: commit" not in before, "a failed step is not counted"
    metrics._capture.count("vehicle", 500, 3)
    metrics._capture.count("face", 100, 1)
    after = counts_of(generate_latest(metrics.registry).decode())
    assert means_ms(before, after) == {TITLES["databus_streams_capture_seconds"]: 400.0}


@given(st.text(max_size=20))
def test_rates_are_numbers_or_an_error(text: str) -> None:
    with contextlib.suppress(OperatorError):
        assert all(rate >= 0 for rate in parse_rates(text))


def test_the_profile_is_of_one_machine_or_of_a_city_s_servers() -> None:
    assert [parse_arrangement(text) for text in ("a", "b")] == [Arrangement.A, Arrangement.B]
    with pytest.raises(OperatorError, match="city's servers"):
        parse_arrangement("kraft")
    assert parse_rates("0, 50,200") == [0, 50, 200]
    with pytest.raises(OperatorError, match="0,100"):
        parse_rates("many")
