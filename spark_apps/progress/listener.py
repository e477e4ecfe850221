"""Spark's `StreamingQueryListener` → our metrics.

PySpark's own wrapper asks the JVM for every field of every batch, some thirty calls; this one takes
the JSON in one. Source: pyspark/sql/streaming/listener.py of Spark 4.1.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.streaming import StreamingQueryListener

from spark_apps.progress.batch_progress import read_progress
from spark_apps.progress.metrics import StreamsMetrics

log = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """Called by Spark after each batch, in a thread of its own; it is what the JVM calls itself."""

    def __init__(self, metrics: StreamsMetrics) -> None:
        self._metrics = metrics

    @cached_property
    def _jlistener(self) -> Any:
        """Asked for by `addListener`, which has imported the class."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(self)

    def onQueryProgress(self, event: Any) -> None:
        """A fault here must not end the query's listener bus."""
        try:
            self._metrics.observe(read_progress(event.progress().json()))
        except (msgspec.DecodeError, Py4JError) as error:
            log.warning("the progress of a batch is not shown: %s", error)

    def onQueryStarted(self, event: object) -> None:
        """Nothing is shown of it."""

    def onQueryIdle(self, event: object) -> None:
        """Nothing is shown of it."""

    def onQueryTerminated(self, event: object) -> None:
        """The driver ends with it."""

    class Java:
        """The interface that py4j implements by this class."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
