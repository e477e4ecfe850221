"""Spark's event log, as far as it tells of batches. Pure.

In: lines of the log of one application (Spark 4.3, neither compressed nor divided). Out: batches,
executions, jobs, stages and tasks with their times in epoch milliseconds. Never: a line that it
does not know; it is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

PYTHON_START, PYTHON_INIT = "time to start Python workers", "time to initialize Python workers"
PYTHON_RUN, PYTHON_WORK = "time to run Python workers", "time to execute Python code"
PYTHON_TIMES = (PYTHON_START, PYTHON_INIT, PYTHON_RUN, PYTHON_WORK)
QUERY_ID, EXECUTION_ID = "sql.streaming.queryId", "spark.sql.execution.id"


class UnreadableEvent(Exception):
    """A line of a kind that is read is not as Spark writes it."""


class BatchEvent(msgspec.Struct, frozen=True):
    """A micro-batch that has ended; `durations_ms` by Spark's names."""

    query_id: str
    query: str
    began_ms: int
    records: int
    durations_ms: dict[str, int]


class TaskEvent(msgspec.Struct, frozen=True):
    """A task that has ended, by Spark's measures; CPU is that of its thread in the JVM."""

    stage: int
    launched_ms: int
    finished_ms: int
    deserialize_ms: float = 0
    deserialize_cpu_ms: float = 0
    run_ms: float = 0
    run_cpu_ms: float = 0
    collection_ms: float = 0
    result_ms: float = 0
    fetch_wait_ms: float = 0
    shuffle_write_ms: float = 0


class StageEvent(msgspec.Struct, frozen=True):
    """A stage that has ended; `python_ms`: by Spark's names, of all its tasks."""

    stage: int
    submitted_ms: int
    completed_ms: int
    tasks: int
    python_ms: dict[str, int]


class JobEvent(msgspec.Struct):
    """`query_id` and `execution` are empty for a job that belongs to none."""

    query_id: str
    execution: str
    submitted_ms: int
    stages: list[int]
    completed_ms: int = 0


class ExecutionEvent(msgspec.Struct):
    """One action of Spark SQL."""

    began_ms: int
    ended_ms: int = 0


class SparkEvents(msgspec.Struct):
    """What one application has told."""

    application: str = ""
    batches: list[BatchEvent] = []
    executions: dict[str, ExecutionEvent] = {}
    jobs: dict[int, JobEvent] = {}
    stages: dict[int, StageEvent] = {}
    tasks: list[TaskEvent] = []


def read_events(lines: Iterable[str]) -> SparkEvents:
    """All of a log; its last line may be cut off. Raises `UnreadableEvent`."""
    found = SparkEvents()
    for line in lines:
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # the end of a log that is still written
        name = event.get("Event") if isinstance(event, dict) else None
        read = _READERS.get(name.rpartition(".")[2] if isinstance(name, str) else "")
        if read is None:
            continue
        try:
            read(found, event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UnreadableEvent(f"{name}: {type(error).__name__} {error}") from error
    return found


def _application(found: SparkEvents, event: dict[str, Any]) -> None:
    found.application = str(event["App Name"])


def _batch(found: SparkEvents, event: dict[str, Any]) -> None:
    told = event["progress"]
    progress = msgspec.json.decode(told) if isinstance(told, str) else told
    durations = {str(k): int(v) for k, v in progress["durationMs"].items()}
    began = datetime.fromisoformat(str(progress["timestamp"]).replace("Z", "+00:00"))
    records = sum(int(source.get("numInputRows", 0)) for source in progress["sources"])
    found.batches.append(
        BatchEvent(
            str(progress["id"]), str(progress["name"]), int(began.timestamp() * 1000), records,
            durations,
        )
    )  # fmt: skip


def _execution_began(found: SparkEvents, event: dict[str, Any]) -> None:
    found.executions[str(event["executionId"])] = ExecutionEvent(int(event["time"]))


def _execution_ended(found: SparkEvents, event: dict[str, Any]) -> None:
    execution = found.executions.get(str(event["executionId"]))
    if execution is not None:
        execution.ended_ms = int(event["time"])


def _job_began(found: SparkEvents, event: dict[str, Any]) -> None:
    known = event.get("Properties") or {}
    found.jobs[int(event["Job ID"])] = JobEvent(
        str(known.get(QUERY_ID, "")),
        str(known.get(EXECUTION_ID, "")),
        int(event["Submission Time"]),
        [int(one) for one in event["Stage IDs"]],
    )


def _job_ended(found: SparkEvents, event: dict[str, Any]) -> None:
    job = found.jobs.get(int(event["Job ID"]))
    if job is not None:
        job.completed_ms = int(event["Completion Time"])


def _stage_ended(found: SparkEvents, event: dict[str, Any]) -> None:
    info = event["Stage Info"]
    if "Submission Time" not in info or "Completion Time" not in info:
        return  # it was never run
    python_ms: dict[str, int] = {}
    for one in info.get("Accumulables", ()):
        if (name := one.get("Name")) in PYTHON_TIMES:
            python_ms[name] = python_ms.get(name, 0) + max(0, int(one["Value"]))
    number = int(info["Stage ID"])
    found.stages[number] = StageEvent(
        number, int(info["Submission Time"]), int(info["Completion Time"]),
        int(info["Number of Tasks"]), python_ms,
    )  # fmt: skip


def _task_ended(found: SparkEvents, event: dict[str, Any]) -> None:
    info, metrics = event["Task Info"], event.get("Task Metrics") or {}
    read, written = metrics.get("Shuffle Read Metrics"), metrics.get("Shuffle Write Metrics")
    found.tasks.append(
        TaskEvent(
            stage=int(event["Stage ID"]),
            launched_ms=int(info["Launch Time"]),
            finished_ms=int(info["Finish Time"]),
            deserialize_ms=float(metrics.get("Executor Deserialize Time", 0)),
            deserialize_cpu_ms=metrics.get("Executor Deserialize CPU Time", 0) / 1e6,
            run_ms=float(metrics.get("Executor Run Time", 0)),
            run_cpu_ms=metrics.get("Executor CPU Time", 0) / 1e6,
            collection_ms=float(metrics.get("JVM GC Time", 0)),
            result_ms=float(metrics.get("Result Serialization Time", 0)),
            fetch_wait_ms=float((read or {}).get("Fetch Wait Time", 0)),
            shuffle_write_ms=(written or {}).get("Shuffle Write Time", 0) / 1e6,
        )
    )


_READERS = {
    "SparkListenerApplicationStart": _application,
    "StreamingQueryListener$QueryProgressEvent": _batch,
    "SparkListenerSQLExecutionStart": _execution_began,
    "SparkListenerSQLExecutionEnd": _execution_ended,
    "SparkListenerJobStart": _job_began,
    "SparkListenerJobEnd": _job_ended,
    "SparkListenerStageCompleted": _stage_ended,
    "SparkListenerTaskEnd": _task_ended,
}
