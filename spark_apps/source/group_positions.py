"""Positions of an application as committed offsets of a consumer group, `streams-NAME`.

So an application needs no store, and every tool of Kafka shows its lag and resets it while it is
stopped. The group has no members: the driver assigns partitions by itself, as Spark does.

Each commit names all partitions of the topics and never lowers one. Of several drivers of one
application the one that is behind leaves the commits to the other until it has passed it: before a
commit it is read what the group has, every few seconds while nobody else commits, else each time
(Kafka has no commit that compares, so that two within one round trip remain). The metadata of an
offset is the id of the topic it was taken on (`bus.client.committed`).

A commit is one record for each partition on the coordinator's topic, for good until a cleaner has
come by, so a group commits once a second at most, and at its stop. No batch waits for it: what a
crash repeats of a second does no harm, the coordinator may have died, and the next batch has
nothing to do with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial

from bus.client.committed import valid_offsets
from bus.client.kafka.consumer import Consumer
from bus.client.model import ClusterIdentity, TopicAndPartition, TopicPartition
from bus.contracts.groups import application_group
from bus.errors import BusError
from bus.settings import BusSettings
from spark_apps.session.retry import retry

log = logging.getLogger(__name__)

CHECK_S = 2.0  # of a driver that is alone: how soon it notices another one
COMPANY_S = 60.0  # so long after another's last commit it is read again before each of ours
CLOSE_S = 2.0  # a stop waits so long for the last commit; without it a batch is repeated
COMMIT_EVERY_S = 1.0  # between the beginnings of two commits of a group
REFRESH_S = 3600.0  # commits expire (offsets.retention.minutes, 7 days), also where nothing comes


class GroupPositions:
    """The positions of one application, for any thread.

    Invariants: no end in `_ends` ever falls; after `start_at` it has every partition. `_committed`
    is what the group has if nobody else commits. While `_committer` works (`_is_committing`), it
    ends only when no call has asked for a commit since the last one began (`_is_wanted`).
    """

    def __init__(
        self,
        bus: BusSettings,
        application: str,
        cluster: ClusterIdentity,
        topics: Iterable[str],
        stopping: threading.Event,
    ) -> None:
        self._topics = frozenset(topics)
        self._stopping = stopping
        self._stand_on(cluster)
        self._group = application_group(application)
        self._consumer = Consumer(bus, client_id=self._group, group=self._group)
        self._asking = threading.Lock()  # held while the coordinator is asked; taken before `_lock`
        self._lock = threading.Lock()  # of `_ends` and `_is_committing`; never while one waits
        self._committer = ThreadPoolExecutor(1, thread_name_prefix=f"{self._group}-commit")
        self._committed_soon: Future[None] | None = None
        self._is_committing = False
        self._is_wanted = False
        self._due_at_s = 0.0
        self._is_urgent = threading.Event()  # what waits for its second is committed now
        self._ends: dict[TopicAndPartition, int] = {}
        self._committed: dict[TopicAndPartition, int] = {}
        self._check_at_s = 0.0
        self._company_until_s = 0.0
        self.application = application
        self.replaced: set[str] = set()
        """Topics whose committed position was void when it was read."""
        self._committed_at_s = time.monotonic()

    def restart(self, cluster: ClusterIdentity) -> None:
        """Topics of it are other ones by now: `read` says what still means something."""
        with self._asking, self._lock:  # a commit under way is of the former topics
            self._stand_on(cluster)
            self._ends = {}
            self._is_wanted = False

    def read(self) -> dict[TopicAndPartition, int]:
        """Where the application stands. Retries for a while, then raises `BusError`."""
        committed = retry(
            partial(self._consumer.committed_offsets, self._places), self._stopping, self._group
        )
        self._ends, void = valid_offsets(committed, self._cluster.topic_ids)
        self._committed = dict(self._ends)
        self.replaced = {topic for topic, _ in void}
        for topic, number in void:
            log.error(
                "%s: the position on %s-%d is of an earlier topic of that name and void; "
                "reading begins at the first record there is",
                self._group, topic, number,
            )  # fmt: skip
        return dict(self._ends)

    def since(
        self, moment_ms: int
    ) -> tuple[dict[TopicAndPartition, int], dict[TopicAndPartition, int]]:
        """Of each partition the offset at a moment, and the end as it is now. Retries for a while,
        then raises `BusError`."""
        ask = partial(self._consumer.offsets_at, self._places, moment_ms)
        ends = {
            place: retry(partial(self._consumer.bounds, place), self._stopping, self._group)[1]
            for place in self._places
        }
        found = retry(ask, self._stopping, self._group)
        starts = {
            (place.topic, place.partition): offset if offset >= 0 else ends[place]
            for place, offset in found.items()
        }
        return starts, {(place.topic, place.partition): end for place, end in ends.items()}

    def start_at(self, starts: Mapping[TopicAndPartition, int]) -> None:
        """Where reading begins in every partition: what nothing comes from is named as well."""
        self._advance(starts)

    def publish_start(self) -> None:
        """Commit where reading begins, without waiting, so that who watches the lag sees at once
        that what lay before is passed; it is committed again with the next batch."""
        with self._asking:
            try:
                self._commit_unless_behind(wait=False)
            except BusError as error:
                log.warning("%s: the start is committed later: %s", self._group, error)

    def commit_soon(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """Advance to these ends (exclusive); the next commit names what is the newest by then.
        Raises `BusError` of one before that was given up after retries."""
        self._advance(ends)
        self._begin(self._commit_with_retries)

    def publish(self, ends: Mapping[TopicAndPartition, int]) -> None:
        """The same for those who watch the lag: the next commit heals a lost one."""
        self._advance(ends)
        self._begin(self._publish_newest)

    def flush(self, timeout_s: float) -> None:
        """Commit now what waits for its time; wait so long for the answer."""
        self._is_urgent.set()
        if self._committed_soon is not None:
            wait([self._committed_soon], timeout_s)
        self._is_urgent.clear()

    def refresh(self) -> None:
        """Commit again what has not been committed for an hour."""
        if time.monotonic() - self._committed_at_s <= REFRESH_S:
            return
        with self._asking:
            try:
                self._commit_unless_behind(wait=False)
            except BusError as error:
                log.warning("%s: not renewed, tried again later: %s", self._group, error)
                self._committed_at_s += CHECK_S

    def close(self) -> None:
        """Leave the connections, after what is not committed yet."""
        self.flush(CLOSE_S)
        self._committer.shutdown(wait=False, cancel_futures=True)
        self._consumer.close()

    def _stand_on(self, cluster: ClusterIdentity) -> None:
        self._cluster = cluster
        self._places = [TopicPartition(*p) for p in cluster.partitions if p[0] in self._topics]

    def _advance(self, ends: Mapping[TopicAndPartition, int]) -> None:
        with self._lock:
            for partition, end in ends.items():
                self._ends[partition] = max(end, self._ends.get(partition, 0))

    def _newest(self) -> dict[TopicAndPartition, int]:
        with self._lock:
            return dict(self._ends)

    def _begin(self, commit: Callable[[], object]) -> None:
        with self._lock:
            self._is_wanted = True
            if self._is_committing:
                return
            given_up = None if self._committed_soon is None else self._committed_soon.exception()
            if given_up is not None:
                raise given_up
            self._is_committing = True
            self._committed_soon = self._committer.submit(self._commit_while_wanted, commit)

    def _commit_while_wanted(self, commit: Callable[[], object]) -> None:
        """In the committer's thread; each when its time has come."""
        try:
            while True:
                self._is_urgent.wait(max(self._due_at_s - time.monotonic(), 0))
                with self._lock:
                    self._is_wanted = False
                    self._due_at_s = time.monotonic() + COMMIT_EVERY_S
                with self._asking:
                    commit()
                with self._lock:
                    if not self._is_wanted:
                        self._is_committing = False
                        return
        except BaseException:
            with self._lock:
                self._is_committing = False
            raise

    def _commit_with_retries(self) -> dict[TopicAndPartition, int]:
        """What was the newest then. Raises `BusError`."""
        commit = partial(self._commit_unless_behind, wait=True)
        return retry(commit, self._stopping, self._group)

    def _publish_newest(self) -> None:
        """An answer is waited for by who stops only."""
        try:
            self._commit(self._newest(), wait=self._is_urgent.is_set())
        except BusError as error:
            log.warning("%s: published later: %s", self._group, error)

    def _commit_unless_behind(self, *, wait: bool) -> dict[TopicAndPartition, int]:
        newest = self._newest()
        if self._is_behind(newest):
            self._committed_at_s = time.monotonic()  # another driver does it
        else:
            self._commit(newest, wait=wait)
        return newest

    def _is_behind(self, ends: Mapping[TopicAndPartition, int]) -> bool:
        """Whether another driver has committed more somewhere."""
        now_s = time.monotonic()
        if now_s < self._check_at_s:
            return False
        answer = self._consumer.committed_offsets(self._places)
        found, _ = valid_offsets(answer, self._cluster.topic_ids)
        if found != self._committed:
            self._company_until_s = now_s + COMPANY_S
            self._committed = found
        self._check_at_s = now_s + (CHECK_S if now_s > self._company_until_s else 0)
        return any(end > ends.get(partition, 0) for partition, end in found.items())

    def _commit(self, ends: dict[TopicAndPartition, int], *, wait: bool) -> None:
        places = {TopicPartition(*partition): end for partition, end in ends.items()}
        ids = {place: self._cluster.topic_ids.get(place.topic, "") for place in places}
        if places:
            self._consumer.commit(places, ids, wait=wait)
        self._committed = ends
        self._committed_at_s = time.monotonic()
