"""Trying again what store or bus refuse for a while, and jobs of Spark that may succeed later."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bus.errors import BusError
from ingest.store.port import StoreError
from spark_apps.session.job_failures import JobFailed, failure_of

log = logging.getLogger(__name__)

Done = TypeVar("Done")

WAIT_S = 1200.0  # how long store and bus are waited for before the driver ends
JOB_PAUSE_S = 2.0  # before a job that has failed is run again
SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""What the call of a job raises; `OSError` where the JVM or the driver's own disk fails."""


def retry(
    work: Callable[[], Done], stopping: threading.Event, what: str, wait_s: float = WAIT_S
) -> Done:
    """Do what is refused for a while (a full disk, a server that is away, a coordinator that moves)
    again and again, within `wait_s`. Raises `StoreError`, `BusError`."""
    pause_s, deadline = 0.1, time.monotonic() + wait_s
    while True:
        try:
            return work()
        except (StoreError, BusError) as error:
            if not error.retriable or time.monotonic() >= deadline or stopping.is_set():
                raise
            log.warning("%s: %s; trying again in %.1f s", what, error, pause_s)
        stopping.wait(pause_s)
        pause_s = min(2 * pause_s, 5.0)


def retry_job(
    job: Callable[[], Done], stopping: threading.Event, what: str, wait_s: float = WAIT_S
) -> Done:
    """Run a job of Spark; when it failed for a reason that passes, again, within `wait_s`. Raises
    `JobFailed` for a reason that is known, else what Spark raised."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return job()
        except SPARK_ERRORS as error:
            failure = failure_of(text_of(error))
            if failure is None:
                raise
            if not failure.passing or time.monotonic() >= deadline or stopping.is_set():
                raise JobFailed(failure.sentence) from error
            log.warning("%s: %s; the same is done again", what, failure.sentence)
        stopping.wait(JOB_PAUSE_S)


def text_of(error: BaseException) -> str:
    """What an exception says; Java's is asked for its trace, if Java is still there."""
    try:
        return str(error)
    except (Py4JError, OSError):
        return repr(error)
