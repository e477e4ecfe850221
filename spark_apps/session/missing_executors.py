"""Warns why no executor of a cluster works for this application.

A job that fails says why. One that waits because each executor ends as soon as it begins (a full
disk), or because the cluster gives none, fails never, and Spark says it among much else. In: what
Spark's status store knows of executors. Out: a warning with what to do. Never: more than one in
`WARN_EVERY_S`; a word where executors come and go with the load, or run in the driver.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_apps.session.job_failures import LOST, failure_of
from spark_apps.session.retry import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CHECK_EVERY_S = 10.0
WARN_EVERY_S = 60.0
NONE_GIVEN = (
    "the cluster has given none: its workers are away or full, or spark.cores.max of all"
    " applications is more than they have"
)


class MissingExecutors:
    """For one thread. Invariant: a check costs one call of the JVM while an executor works."""

    def __init__(
        self, session: SparkSession, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        context = session.sparkContext
        conf = context.getConf()
        dynamic = conf.get("spark.dynamicAllocation.enabled", "false") == "true"
        self._has_executors = not context.master.startswith("local") and not dynamic
        self._store: Any = context._jsc.sc().statusStore()
        self._clock_s = clock_s
        self._due_s = clock_s() + CHECK_EVERY_S
        self._warned_s = -WARN_EVERY_S
        self._was_missing = False

    def warn_due(self) -> None:
        """Check if it was not done for a while. The second check that finds none warns: an executor
        that is lost is given anew within seconds."""
        now = self._clock_s()
        if not self._has_executors or now < self._due_s:
            return
        self._due_s = now + CHECK_EVERY_S
        try:
            why = self._why_none_works()
        except SPARK_ERRORS:
            return  # the JVM is gone, which the queries say
        if why and self._was_missing and now - self._warned_s >= WARN_EVERY_S:
            log.warning("streams: no executor works: %s", why)
            self._warned_s = now
        self._was_missing = bool(why)

    def _why_none_works(self) -> str:
        """Empty: one does. Spark counts the driver among them."""
        if self._store.executorList(True).size() > 1:
            return ""
        reason = _newest_reason(self._store.executorList(False))
        if not reason:
            return NONE_GIVEN
        failure = failure_of(reason)
        return failure.sentence if failure is not None else f"{LOST}: {reason.splitlines()[0]}"


def _newest_reason(executors: Any) -> str:
    """Why the executor that was lost last was lost. `executors`: a Scala sequence."""
    ended = [one for one in map(executors.apply, range(executors.size())) if not one.isActive()]
    newest = max(ended, key=lambda one: int(one.id()), default=None)
    if newest is None or newest.removeReason().isEmpty():
        return ""
    return str(newest.removeReason().get())
