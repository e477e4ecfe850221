"""One Spark driver with all micro-batch queries (or some): `python -m spark_apps.driver
--settings FILE [--application NAME …]`.

Exit status: 0 asked to stop, 1 a query failed, 2 it could not start. A driver that lost a query
ends, and the supervisor starts a new one, which begins where its applications stand.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

if __name__ == "__main__" and not __package__:
    sys.path.pop(
        0
    )  # `spark-submit …/driver.py`: our folders would hide the packages of their names

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from bus.client.kafka.cluster import ClusterUnavailable, admin_client, wait_for_topics
from bus.client.register_follower import RegisterFollower
from bus.errors import BusError
from bus.metrics.server import MetricsServer
from bus.security.java_config import java_properties
from ingest.store.port import StoreError
from spark_apps.apps.registry import APPLICATIONS, TOPICS, in_order, needs_store, queries_of
from spark_apps.progress.listener import ProgressListener
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.publish.publisher import EventPublisher
from spark_apps.queries.application import SharedQuery, open_cursor
from spark_apps.queries.context import Context
from spark_apps.queries.running_queries import RunningQueries
from spark_apps.session.java_references import GarbageCollector
from spark_apps.session.missing_executors import MissingExecutors
from spark_apps.session.retry import SPARK_ERRORS
from spark_apps.session.session import SessionError, open_session
from spark_apps.session.warm_up import start_warm_up
from spark_apps.settings import JobSettings, read_settings
from spark_apps.source.kafka_source import connector_security
from spark_apps.source.truncations import LogsTruncated

log = logging.getLogger(__name__)

_WATCH_INTERVAL_S = 0.5
REGISTER_S = 10.0  # a start waits so long for the register


class Driver:
    """A session and its queries, from start to stop."""

    def __init__(self, settings: JobSettings, applications: Sequence[str]) -> None:
        self._settings = settings
        self._names = in_order(applications)
        self._stopping = threading.Event()
        self._metrics = StreamsMetrics()
        self._queries: RunningQueries | None = None
        self._register: RegisterFollower | None = None

    def stop(self) -> None:
        """Ask `run` to end; safe from a signal handler and from other threads."""
        self._stopping.set()

    def run(self) -> int:
        """Start everything, watch it, stop everything."""
        began = time.monotonic()
        try:
            session, context = self._open()
        except (BusError, ClusterUnavailable, SessionError, StoreError) as error:
            log.error("streams: cannot start: %s", error)
            return 2
        streams = self._settings.streams
        self._metrics.bound(streams.max_offsets_per_batch, streams.max_batch_bytes)
        port = streams.page_port(self._names)
        page = MetricsServer(
            streams.metrics_host, port, self._metrics.registry,
            page_token=self._settings.page_token,
        )  # fmt: skip
        try:
            session.streams.addListener(ProgressListener(self._metrics))
            queries = self._start(session, context)
            ready = partial(self._ready, began)
            start_warm_up(session, streams, self._stopping, ready)
            return self._watch(context, queries, MissingExecutors(session))
        finally:
            page.close()
            self._close(session, context)

    def _open(self) -> tuple[SparkSession, Context]:
        """The JVM starts while we wait for the broker, the topics and the store."""
        with ThreadPoolExecutor(1) as pool:
            context: Future[Context] = pool.submit(self._context)
            properties = java_properties(self._settings.bus.librdkafka)
            session = open_session(self._settings.streams, len(self._names), properties)
            return session, context.result()

    def _context(self) -> Context:
        settings = self._settings
        connector_security(settings.bus)  # what it refuses is said before anything has started
        admin = admin_client(settings.bus)
        cluster = wait_for_topics(admin, sorted(TOPICS), self._stopping)
        path = settings.site.data_path / "register.json"
        register = self._register = RegisterFollower(settings.bus, path, "streams-register").start()
        if not register.wait_until_read(REGISTER_S):
            log.warning("streams: the register could not be read yet; places come with it")
        context = Context(
            settings=settings,
            cluster=cluster,
            admin=admin,
            publisher=EventPublisher(settings.bus, settings.site.name),
            register=register,
            stopping=self._stopping,
            metrics=self._metrics,
        )
        context.watch_truncations(TOPICS)
        if needs_store(self._names):
            _ = context.store  # opened while the JVM starts
        return context

    def _start(self, session: SparkSession, context: Context) -> RunningQueries:
        groups = queries_of(self._names, share_reading=self._settings.streams.share_reading)
        topics = context.follow_topics(TOPICS)
        queries = RunningQueries(session, context, topics, len(groups))
        self._queries = queries
        for query in self._opened(context, groups):
            if self._stopping.is_set():
                break
            queries.start(query)
        return queries

    def _ready(self, began: float) -> None:
        log.info("streams: ready after %.1f s: %s", time.monotonic() - began, self._names)

    def _opened(self, context: Context, groups: list[list[str]]) -> Iterator[SharedQuery]:
        """The queries in their order: what a later one rebuilds keeps no earlier one waiting."""
        for names in groups:
            yield SharedQuery([open_cursor(APPLICATIONS[name].make(context)) for name in names])

    def _watch(
        self, context: Context, queries: RunningQueries, executors: MissingExecutors
    ) -> int:
        collector = GarbageCollector()
        while not self._stopping.wait(_WATCH_INTERVAL_S):
            collector.collect_due()
            executors.warn_due()
            try:
                context.do_periodic_work()
            except LogsTruncated as error:
                log.error("streams: %s", error)
                return 1
            queries.follow_topics()
            if (ended := queries.ended()) is not None:
                _log_end(*ended)
                return 1
        return 0

    def _close(self, session: SparkSession, context: Context) -> None:
        """Stop the queries, then what they write to. A batch under way ends or never happened."""
        guard = threading.Timer(self._settings.streams.stop_timeout_s, os._exit, (3,))
        guard.daemon = True
        guard.start()
        try:
            if self._queries is not None:
                self._queries.stop()
            session.stop()
        except (Py4JError, OSError) as error:
            # A Ctrl-C of the whole process group reaches the JVM as well, which then is gone first.
            log.info("streams: Spark was stopped before us: %s", str(error).splitlines()[0])
        if self._queries is not None:
            self._queries.close()
        context.close()
        if self._register is not None:
            self._register.close()
        guard.cancel()


def _log_end(name: str, cause: object) -> None:
    trace = cause if isinstance(cause, BaseException) else None
    words = _lines(str(cause) or repr(cause))
    is_java = isinstance(cause, SPARK_ERRORS)  # whose trace is long, and in the words
    log.error("streams: query %s ended: %s", name, words, exc_info=None if is_java else trace)


def _lines(text: str) -> str:
    """The first ones; Java's traces are long."""
    return " | ".join(line.strip() for line in text.splitlines()[:6])[:2000]


def run(settings: JobSettings, applications: Sequence[str] = ()) -> int:
    """Run in this process until SIGTERM, Ctrl-C or a failure."""
    gc.freeze()  # what is imported stays; and a batch makes a hundred thousand objects that hold no
    gc.set_threshold(200_000, 20, 100)  # cycles: looking for some after every 700 costs a fifth
    driver = Driver(settings, applications or settings.streams.applications)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.stop())
    return driver.run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line names; without `--application`, what the settings name."""
    parser = argparse.ArgumentParser(prog="spark_apps.driver", allow_abbrev=False)
    parser.add_argument("--settings", type=Path, required=True, metavar="FILE.json")
    parser.add_argument(
        "--application", action="append", default=[], choices=APPLICATIONS, metavar="NAME",
        help=f"one of {', '.join(APPLICATIONS)}; may be given several times",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # `Driver._failed` logs failures
    return run(read_settings(chosen.settings), chosen.application)


if __name__ == "__main__":
    sys.exit(main())
