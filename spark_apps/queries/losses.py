"""What the queries of one driver lose: counted before they read, told as incidents.

In: where logs begin, what a batch is about to read, positions that are void. Out: incidents, each
loss once: what the watch has told is left out. Never: a batch held up because a leader is away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from bus.client.kafka.cluster import AdminClient, ClusterUnavailable, start_offsets
from bus.client.model import TopicAndPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.alarms import Incident
from bus.errors import BusError
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from spark_apps.batches.message import OffsetRanges
from spark_apps.publish.incidents import ReadTimeout, lately_open, read_incidents, still_open
from spark_apps.queries.application import SharedQuery
from spark_apps.source.lost_records import LostRecords

log = logging.getLogger(__name__)

REPORT_EVERY_S = 5.0
LATELY_MS = 60_000  # the watch ends an incident ten seconds after we have read on


class QueryLosses:
    """Invariant: nothing is told before what was told by the driver before is known."""

    def __init__(
        self,
        bus: BusSettings,
        admin: AdminClient,
        publish: Callable[[Sequence[Incident]], None],
        of_void_positions: Callable[[], Iterable[Incident]],
    ) -> None:
        """`of_void_positions`: what was lost with positions that were void at the start."""
        self._bus = bus
        self._admin = admin
        self._publish = publish
        self._of_void_positions = of_void_positions
        self._lost: dict[str, LostRecords] = {}
        self._leaders: dict[str, PartitionLeaders] = {}
        self._reported_at_s = time.monotonic()
        self._is_resumed = False

    def of_query(self, query: SharedQuery) -> LostRecords:
        """What a query loses; told by `publish_due`. The same one when it begins again."""
        if query.name not in self._lost:
            self._lost[query.name] = LostRecords(query.name, query.readers)
        return self._lost[query.name]

    def add_unread(
        self,
        query: SharedQuery,
        unread: Mapping[str, Mapping[TopicAndPartition, int]],
        end_unseen: Set[str],
    ) -> None:
        """By application, what is gone with topics that were made again. Told at the next look."""
        self.of_query(query).add_of_readers(unread, end_unseen)
        self._reported_at_s = -REPORT_EVERY_S

    def publish_due(self) -> None:
        """Every few seconds."""
        if time.monotonic() - self._reported_at_s > REPORT_EVERY_S:
            self._reported_at_s = time.monotonic()
            self._publish_open()

    def _publish_open(self) -> None:
        """Publish what retention or a truncation took from the queries. While the cluster cannot
        say where logs begin, later. Raises `BusError`, `DeliveryFailed`."""
        try:
            if not self._is_resumed:
                before = still_open(read_incidents(self._bus), "lost")
                for lost in self._lost.values():
                    lost.resume(before)
                self._publish(list(self._of_void_positions()))
                self._is_resumed = True
            if any(lost.is_new() for lost in self._lost.values()):
                incidents = read_incidents(self._bus)
                lately = lately_open(incidents, "lost", now_ms() - LATELY_MS)
                for lost in self._lost.values():
                    lost.cover_by_watch(lately)
            for lost in filter(LostRecords.is_open, self._lost.values()):
                starts = start_offsets(self._admin, lost.partitions())
                found = lost.incidents(starts, now_ms())
                for one in found:
                    log.error("records lost before they were read: %s (%s)", one.detail, one.state)
                self._publish(found)
        except (ClusterUnavailable, ReadTimeout) as error:
            log.warning("lost records cannot be told yet: %s", error)

    def log_starts(self, query: str) -> PartitionLeaders:
        """Who is asked where logs begin, by the one thread of a query."""
        if query not in self._leaders:
            self._leaders[query] = PartitionLeaders(self._bus, f"streams-{query}-starts")
        return self._leaders[query]

    def check(self, lost: LostRecords, leaders: PartitionLeaders, offsets: OffsetRanges) -> None:
        """Count what is gone of a batch that is about to be read."""
        starts = self._starts_now(leaders, offsets)
        if len(starts) < len(offsets):
            log.warning("nobody knows whether records of this batch are gone: a leader is away")
        lost.check(offsets, starts)

    def _starts_now(
        self, leaders: PartitionLeaders, offsets: OffsetRanges
    ) -> dict[TopicAndPartition, int]:
        """Where logs begin, of those whose leader answers at once."""
        try:
            return leaders.start_offsets(offsets)
        except BusError as error:
            log.debug("%s; librdkafka is asked", error)
        try:
            return start_offsets(self._admin, offsets)
        except ClusterUnavailable:
            return {}

    def close(self) -> None:
        """Ask no more."""
        for leaders in self._leaders.values():
            leaders.close()
