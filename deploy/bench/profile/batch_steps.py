"""The steps of a batch, by what Spark and the drivers tell of a stretch of time. Pure.

In: Spark's events, a stretch. Out: for each query, per batch, the time of each step. Never: a batch
that began outside the stretch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from deploy.bench.profile.spark_events import (
    PYTHON_TIMES,
    BatchEvent,
    JobEvent,
    SparkEvents,
    TaskEvent,
)

TRIGGER, SINK = "triggerExecution", "addBatch"
TRIGGER_STEPS = {
    "latestOffset": "ends of the topics",
    "queryPlanning": "planning of the stream",
    "walCommit": "offset log",
    "getBatch": "source",
    SINK: "the sink: all of ours",
    "commitOffsets": "commit log",
    TRIGGER: "the whole trigger",
}
"""By Spark's names of them."""
ANALYSIS = "the sink outside of executions: ledger, commit, analysis"
PLANNING, LAUNCH = "planning and code, to the job", "job to the first task's launch"
TASKS, BEHIND = "first launch to the last finish", "last finish to the execution's end"
TASK_STEPS = {
    "tasks: deserialised": "deserialize_ms",
    "tasks: run": "run_ms",
    "tasks: collections in Java": "collection_ms",
    "tasks: result serialised": "result_ms",
    "tasks: waited for a shuffle": "fetch_wait_ms",
    "tasks: shuffle written": "shuffle_write_ms",
    "tasks: CPU of deserialising": "deserialize_cpu_ms",
    "tasks: CPU of running, in Java": "run_cpu_ms",
}
"""Added up over the tasks of a batch, which run side by side."""


class QuerySteps(msgspec.Struct, frozen=True, kw_only=True):
    """One query in a stretch. `steps_ms`: mean per batch, in milliseconds; what begins with
    `tasks:` and `stage` is added up over tasks."""

    query: str
    batches: int
    triggers_without: int
    records: float
    jobs: float
    tasks: float
    steps_ms: Mapping[str, float]


def steps_of(events: SparkEvents, from_ms: int, until_ms: int) -> list[QuerySteps]:
    """Of every query of an application that had a batch in the stretch."""
    triggers = [one for one in events.batches if from_ms <= one.began_ms < until_ms]
    by_query: dict[tuple[str, str], list[BatchEvent]] = {}
    for one in triggers:
        by_query.setdefault((one.query_id, one.query), []).append(one)
    found = []
    for (query_id, query), told in by_query.items():
        batches = [one for one in told if SINK in one.durations_ms]
        if batches:
            jobs = _jobs_within(events, query_id, batches)
            found.append(_of_query(events, query, batches, len(told) - len(batches), jobs))
    return found


def _jobs_within(
    events: SparkEvents, query_id: str, batches: Sequence[BatchEvent]
) -> list[JobEvent]:
    """Those that a batch has begun and that have ended."""
    spans = [(b.began_ms, b.began_ms + b.durations_ms.get(TRIGGER, 0)) for b in batches]
    return [
        job
        for job in events.jobs.values()
        if job.query_id == query_id
        and job.completed_ms
        and any(first <= job.submitted_ms <= last for first, last in spans)
    ]


def _of_query(
    events: SparkEvents,
    query: str,
    batches: Sequence[BatchEvent],
    without: int,
    jobs: Sequence[JobEvent],
) -> QuerySteps:
    sums: Counter[str] = Counter()
    for batch in batches:
        for name, step in TRIGGER_STEPS.items():
            sums[step] += batch.durations_ms.get(name, 0)
    tasks_by_stage: dict[int, list[TaskEvent]] = {}
    for task in events.tasks:
        tasks_by_stage.setdefault(task.stage, []).append(task)
    tasks = [task for job in jobs for stage in job.stages for task in tasks_by_stage.get(stage, ())]
    sums.update(_of_jobs(events, jobs, tasks_by_stage))
    sums[ANALYSIS] = sums[TRIGGER_STEPS[SINK]] - _in_executions(events, jobs)
    for step, field in TASK_STEPS.items():
        sums[step] = sum(getattr(task, field) for task in tasks)
    count = len(batches)
    return QuerySteps(
        query=query,
        batches=count,
        triggers_without=without,
        records=sum(batch.records for batch in batches) / count,
        jobs=len(jobs) / count,
        tasks=len(tasks) / count,
        steps_ms={step: ms / count for step, ms in sums.items()},
    )


def _of_jobs(
    events: SparkEvents, jobs: Iterable[JobEvent], tasks: Mapping[int, Sequence[TaskEvent]]
) -> Counter[str]:
    sums: Counter[str] = Counter()
    planned: set[str] = set()
    for job in jobs:
        own = [task for stage in job.stages for task in tasks.get(stage, ())]
        if not own:
            continue
        launched = min(task.launched_ms for task in own)
        finished = max(task.finished_ms for task in own)
        sums[LAUNCH] += launched - job.submitted_ms
        sums[TASKS] += finished - launched
        execution = events.executions.get(job.execution)
        if execution is not None and execution.ended_ms and job.execution not in planned:
            planned.add(job.execution)
            sums[PLANNING] += job.submitted_ms - execution.began_ms
            sums[BEHIND] += execution.ended_ms - finished
        sums.update(_of_stages(events, job))
    return sums


def _of_stages(events: SparkEvents, job: JobEvent) -> Counter[str]:
    """By their place in the job, the first one reads the bus."""
    sums: Counter[str] = Counter()
    stages = [events.stages[one] for one in sorted(job.stages) if one in events.stages]
    for place, stage in enumerate(stages, 1):
        sums[f"stage {place}: submitted to completed"] += stage.completed_ms - stage.submitted_ms
        for name in PYTHON_TIMES:
            sums[f"stage {place}: {name}"] += stage.python_ms.get(name, 0)
    return sums


def _in_executions(events: SparkEvents, jobs: Iterable[JobEvent]) -> int:
    numbers = {job.execution for job in jobs}
    found = (events.executions.get(number) for number in numbers)
    return sum(one.ended_ms - one.began_ms for one in found if one is not None and one.ended_ms)
