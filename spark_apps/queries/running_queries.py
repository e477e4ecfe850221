"""The queries of one driver, from start to stop: one whose topics were deleted or made anew begins
anew by itself, the others go on.

In: queries, what the brokers say of their topics. Out: running streams. Never: an end of the driver
because a topic is another one by now; a query begun anew while a batch of it is under way.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Iterable
from functools import partial

from pyspark.sql import SparkSession

from bus.client.kafka.cluster import ClusterUnavailable
from spark_apps.queries.application import SharedQuery
from spark_apps.queries.context import Context
from spark_apps.queries.query import RunningQuery, start
from spark_apps.source.topic_changes import TopicChanges, TopicsReplaced

log = logging.getLogger(__name__)


class RunningQueries:
    """For the driver's thread; `failed` is called by the queries' own.

    Invariant: a query is in `running` or, while none of its topics is there, in `_waiting`.
    """

    def __init__(
        self, session: SparkSession, context: Context, topics: TopicChanges, count: int
    ) -> None:
        """`count`: of all queries there will be."""
        self._session = session
        self._context = context
        self._topics = topics
        self._count = count
        self._waiting: list[SharedQuery] = []
        self._failures: dict[str, BaseException] = {}
        self.running: list[RunningQuery] = []

    def start(self, query: SharedQuery) -> None:
        """Begin where its applications stand."""
        failed = partial(self.failed, query.name)
        self.running.append(start(self._session, self._context, query, self._count, failed))

    def failed(self, name: str, error: BaseException) -> None:
        """From a query's thread: a batch failed."""
        self._failures[name] = error

    def follow_topics(self) -> None:
        """Begin those anew whose topics are other ones by now."""
        known = {topic for query in self._all() for topic in query.topics}
        if changed := self._topics.changed(known):
            affected = [one for one in self.running if changed.intersection(one.query.topics)]
            self._restart(affected)

    def ended(self) -> tuple[str, object] | None:
        """Name and cause of a query that has ended, and not because its topics are other ones:
        such a one begins anew."""
        for one in self.running:
            error = self._failures.pop(one.query.name, None)
            if error is None and one.stream.isActive:
                continue
            is_replaced = isinstance(error, TopicsReplaced)
            if not is_replaced and not self._topics.is_cause(one.query.topics):
                return one.query.name, error or one.stream.exception() or "stopped by itself"
            self._restart([one])
            return None
        return None

    def stop(self) -> None:
        """Stop reading; the batches under way end with `close`."""
        for one in self.running:
            one.stream.stop()

    def close(self) -> None:
        """Let the batches under way end."""
        for one in self.running:
            one.close()

    def _all(self) -> Iterable[SharedQuery]:
        return [*(one.query for one in self.running), *self._waiting]

    def _restart(self, affected: Collection[RunningQuery]) -> None:
        for one in affected:
            self._end(one)
        queries = [*(one.query for one in affected), *self._waiting]
        topics = {topic for query in queries for topic in query.topics}
        cluster = self._topics.wait(topics)
        for query in queries:
            self._context.note_unread(query, cluster)
        self._context.restart(cluster, topics, {m for query in queries for m in query.readers})
        self._waiting = []
        for query in queries:
            self._try_to_start(query)

    def _end(self, one: RunningQuery) -> None:
        """A batch that waits for a store or a bus that is away ends the driver instead: the next
        one begins at the same positions."""
        log.warning("streams: topics of %s are other ones or gone by now", one.query.name)
        guard = threading.Timer(self._context.settings.streams.stop_timeout_s, os._exit, (3,))
        guard.daemon = True
        guard.start()
        one.stream.stop()
        one.close()
        guard.cancel()
        self.running.remove(one)
        self._failures.pop(one.query.name, None)

    def _try_to_start(self, query: SharedQuery) -> None:
        there = self._context.cluster.topic_ids.keys()
        missing = sorted(set(query.topics) - there)
        if missing:
            log.error("streams: %s is gone; %s goes on without it", ", ".join(missing), query.name)
        try:
            reopened = query.reopen()
            self._context.forget_void(query.readers)
            if there.isdisjoint(query.topics):
                self._waiting.append(reopened)
                return
            self.start(reopened)
            log.info("streams: %s began anew", query.name)
        except ClusterUnavailable as error:
            log.warning("streams: %s begins anew later: %s", query.name, error)
            self._waiting.append(query)
