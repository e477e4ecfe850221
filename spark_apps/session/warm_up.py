"""The executors of a cluster before the first record: every slot has a Python with our packages.

Without it the driver is ready when no executor has started a Python, and the first batch waits for
their JVMs, the jars, the zip of our packages and its imports: 40 s on two cores, in which a
thousand records a second heap up. Never: a record, the store, an end of the driver where Spark has
fewer slots than it was asked for: the rest comes when it comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from spark_apps.session.retry import SPARK_ERRORS, text_of
from spark_apps.session.session import slots_now
from spark_apps.settings import StreamsSettings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SLOTS_TIMEOUT_S = 60.0
"""An application that gets fewer slots (a worker is away, the cluster is full) does with these."""
_POLL_S = 0.2
_WORK = ("spark_apps.tasks.executor_writer", "spark_apps.apps.watchlist")
"""What tasks run; these import all the rest of it."""


def slots_asked_for(conf: Mapping[str, str]) -> int:
    """Task slots by Spark's configuration of an application on a cluster; 1 where it says nothing
    that bounds them (as many as there are, or as many as the load asks for)."""
    cores = int(conf.get("spark.executor.cores", "1"))
    tasks = max(1, cores // int(conf.get("spark.task.cpus", "1")))
    if "spark.executor.instances" in conf:
        return max(1, int(conf["spark.executor.instances"]) * tasks)
    return max(1, int(conf.get("spark.cores.max", "1")) // cores * tasks)


def wait_for_slots(
    wanted: int,
    slots: Callable[[], int],
    stopping: threading.Event,
    timeout_s: float = SLOTS_TIMEOUT_S,
) -> int:
    """The slots there are: `wanted`, or fewer after `timeout_s`, or when asked to stop."""
    until = time.monotonic() + timeout_s
    while (found := slots()) < wanted and time.monotonic() < until:
        if stopping.wait(_POLL_S):
            break
    return found


def start_warm_up(
    session: SparkSession,
    streams: StreamsSettings,
    stopping: threading.Event,
    ready: Callable[[], None],
) -> None:
    """Beside the queries, which begin with the slots there are; then calls `ready`, from a thread.
    At once where the work is done in this process or beside it on one machine."""

    def work() -> None:
        if streams.work_in == "executors" and not session.sparkContext.master.startswith("local"):
            _warm_up(session, stopping)
        if not stopping.is_set():
            ready()

    threading.Thread(target=work, name="warm-up", daemon=True).start()


def _warm_up(session: SparkSession, stopping: threading.Event) -> None:
    wanted = slots_asked_for(dict(session.sparkContext.getConf().getAll()))
    try:
        found = wait_for_slots(wanted, partial(slots_now, session), stopping)
        if found < wanted and not stopping.is_set():
            log.warning("streams: Spark gave %d of %d slots; it works with these", found, wanted)
        run_in_every_slot(session, found)
    except SPARK_ERRORS as error:
        if not stopping.is_set():  # a batch that fails for the same reason says what to do
            log.warning("streams: executors are not warm: %s", text_of(error)[:2000])


def run_in_every_slot(session: SparkSession, slots: int) -> int:
    """A task for each slot; they last long enough to run side by side, so that each has a worker of
    its own. How many ran. Raises what Spark raises."""
    frame = session.range(0, slots, 1, slots)
    return len(frame.mapInArrow(_imported, "id bigint").repartition(slots).collect())


def _imported(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for name in _WORK:
        import_module(name)
    yield from batches
