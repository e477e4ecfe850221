"""A worker looks through its packages once; what a task leaves behind is collected as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.errors import Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.setup.java import java_home

SETTLED = """
import gc, json, sys, types
from spark_apps.tasks.worker_heap import WorkerHeap

gc.disable()  # only what is asked for collects here

class Node: pass

def cycle():
    first, second = Node(), Node()
    first.other, second.other = second, first

heap = WorkerHeap()
heap.settle()
counts, left = [gc.get_freeze_count()], []
for number in range(40):
    cycle()  # left behind by a task, with a package imported meanwhile
    sys.modules[f"made{number}"] = types.ModuleType(f"made{number}")
    heap.settle()
    counts.append(gc.get_freeze_count())
    left.append(sum(isinstance(one, Node) for one in gc.get_objects()))
heap.settle()
gc.unfreeze()
frozen = sum(isinstance(one, Node) for one in gc.get_objects())
print(json.dumps([counts, left, frozen]))
"""

JOB = """
import json
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings
from spark_apps.tasks.worker_cache import task_of

def answer(**columns):
    import pyarrow
    return pyarrow.RecordBatch.from_pydict({name: [one] for name, one in columns.items()})

def count(batches):
    import gc, os
    list(batches)
    looked_through = len(gc.get_objects())
    yield answer(process=os.getpid(), frozen=gc.get_freeze_count(), tracked=looked_through)

def make(batches):
    import sys, weakref
    class Node: pass
    def cycle(name):
        first, second = Node(), Node()
        first.other, second.other = second, first
        weakref.finalize(first, sys.collected.append, name)
        return first
    list(batches)
    sys.collected = []
    sys.kept = cycle("of a later task")
    cycle("of this task")
    yield answer(name="")

def drop(batches):
    import sys
    list(batches)
    del sys.kept
    yield answer(name="")

def look(batches):
    import sys
    list(batches)
    yield answer(name=",".join(sorted(sys.collected)))

spark = open_session(StreamsSettings(master="local[1]", work_in="executors"), 1)

def run(work, schema):
    return spark.range(0, 1, 1, 1).mapInArrow(task_of(work), schema).collect()[0]

counts = [run(count, "process long, frozen long, tracked long") for _ in range(5)]
run(make, "name string")
run(drop, "name string")
told = {"counts": [list(one) for one in counts], "collected": run(look, "name string").name}
print("FOUND", json.dumps(told))
spark.stop()
"""


def test_a_heap_is_frozen_a_bounded_number_of_times_and_never_with_what_is_left_behind() -> None:
    """Whatever is imported. Before each freeze the cycles of the tasks before are collected."""
    done = subprocess.run(
        [sys.executable, "-c", SETTLED], cwd=PROJECT_ROOT, timeout=60, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    counts, left, frozen = json.loads(done.stdout)
    assert counts[0] > 1_000, "the packages are put aside"
    assert len(set(counts)) == 8, "as often as the limit says, of forty times"
    assert counts[8:] == [counts[7]] * (len(counts) - 8)
    assert left[:7] == [0] * 7
    assert left[-1] > 0, "what is not frozen is seen by the next collection"
    assert frozen == left[-1], "none of them is among the frozen"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_task_s_end_looks_through_no_package_and_still_collects_every_cycle(
    tmp_path: Path,
) -> None:
    """In a real worker of Spark: the daemon collects after each task, and what it looks through is
    no longer what is imported. A cycle that a task leaves, and one that a later task drops, are
    collected. What broke: 95 % of a worker's CPU went into looks that found nothing."""
    try:
        home = java_home()
    except Unavailable as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [sys.executable, "-c", JOB], cwd=PROJECT_ROOT, timeout=180, capture_output=True, text=True,
        env={**os.environ, "JAVA_HOME": str(home)}, check=False,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stderr[-3000:]
    found = json.loads(told[0].removeprefix("FOUND "))
    processes, frozen, tracked = zip(*found["counts"], strict=True)
    assert len(set(processes)) == 1, "the worker is used again"
    assert frozen[-1] > 10_000, found
    assert tracked[-1] * 10 < frozen[-1], found
    assert frozen[-1] <= frozen[-2] <= frozen[-3], "frozen when packages were imported, not again"
    assert found["collected"] == "of a later task,of this task"
