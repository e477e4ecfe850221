"""One reading of the topics into the operations store, from the store's positions until it stops.

In: the open store, the topics as they are. Out: each batch in one transaction with its positions,
and between batches what `SiteTakeover` and `RecorderEvents` have due.
Never: a batch of a topic that was made again behind positions of the former one: the reading ends,
and the next one begins with the topics as they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from alarm.dispatch.alarm_state_events import AlarmStateEvents, acknowledgement_of
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.published_events import PublishedEvents
from alarm.dispatch.recorded_changes import READ, RECORDER, changes_of, starting_positions
from alarm.dispatch.recorder_events import RecorderEvents
from alarm.dispatch.retention import SLICE
from alarm.dispatch.site_takeover import SiteTakeover
from alarm.settings import DispatcherSettings
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.site_role import SiteRole
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.alarms import Acknowledged
from bus.contracts.topics import STATE_ALARM
from bus.domain.retention import RetentionSettings
from bus.domain.table_versions import TableVersions
from bus.notify.acknowledgements import KEEP_MS, Acknowledgements, AcknowledgementsUnavailable
from bus.notify.settings import NoticeSettings
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import Position, StoreUnavailable

POLL_TIMEOUT_S = 0.25  # how long a stop may wait for the consumer
PAST_MINUTES_S = 1.0  # between looks for minutes that are over
FORGET_S = 60.0  # between looks at what is past its time
ROLE_TIMEOUT_S = 10.0  # who does not hear whether the site is a mirror goes on as one that is none


class TopicRecording:
    """One thread, for the life of a recorder; a store for each call of `run`."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        settings: DispatcherSettings,
        notices: NoticeSettings,
        keep: RetentionSettings,
        acknowledged: Acknowledgements,
        stopping: threading.Event,
        metrics: DispatcherMetrics,
    ) -> None:
        self._bus = bus
        self._max_batch = settings.max_batch
        self._give_up_ms = notices.give_up_ms
        self._keep = keep
        self._acknowledged = acknowledged
        self._stopping = stopping
        self._metrics = metrics
        self._takeover = SiteTakeover(site.name, notices.give_up_ms, acknowledged, metrics)
        self._events = RecorderEvents(acknowledged)
        self._alarm_states = AlarmStateEvents()
        self._forget_at_s = self._past_minutes_at_s = 0.0

    def run(
        self,
        operations: OperationsStore,
        stored: Iterable[Position],
        cluster: ClusterIdentity,
        topics: TopicFollower,
        wake: Callable[[], None],
    ) -> None:
        """Until stopped, or until a topic was made anew or has grown. `wake`: there are notices."""
        newest = TableVersions()
        with (
            Consumer(self._bus, client_id=RECORDER, overrides=FOLLOWS_LEADERS) as consumer,
            closing(SiteRole(self._bus, f"{RECORDER}-role").start()) as role,
            closing(PublishedEvents(self._bus, f"{RECORDER}-said")) as events,
        ):
            role.wait_until_known(ROLE_TIMEOUT_S)
            self._takeover.begin()
            operations.alarm_states.note_takes(self._acknowledged_since(0))
            positions = starting_positions(stored, cluster)
            if positions.get(TopicPartition(STATE_ALARM, 0)) == BEGINNING:
                operations.alarm_states.mark_all_unpublished()  # but for what is read there
            consumer.assign(positions)
            while not self._stopping.is_set():
                if renewed := topics.renewed(cluster, READ):
                    self._events.note_unread(renewed, cluster, topics, positions)
                    return
                messages = consumer.poll(self._max_batch, POLL_TIMEOUT_S)
                if messages:
                    self._store(operations, self._changes(messages, newest, cluster, role))
                    positions |= {
                        TopicPartition(m.topic, m.partition): m.offset + 1 for m in messages
                    }
                    self._metrics.records.inc(len(messages))
                    wake()
                self._do_periodic_work(operations, role, events, wake, is_at_end=consumer.at_end)

    def _changes(
        self,
        messages: Sequence[ConsumedRecord],
        newest: TableVersions,
        cluster: ClusterIdentity,
        role: SiteRole,
    ) -> BatchChanges:
        now_ms = wall_clock.now_ms()
        return changes_of(
            messages, newest, cluster, role.secondary_since_ms, now_ms - self._give_up_ms, now_ms
        )

    def _store(self, operations: OperationsStore, changes: BatchChanges) -> None:
        since_ms = changes.now_ms - KEEP_MS
        taken = [acknowledgement_of(one.state) for one in changes.alarm_states]
        self._note_acknowledged(
            [*changes.acknowledged, *(one for one in taken if one and one.at_ms > since_ms)]
        )
        operations.apply(changes)
        self._takeover.on_changes(changes)

    def _acknowledged_since(self, at_ms: int) -> list[Acknowledged]:
        """As the file says. Raises StoreUnavailable."""
        try:
            return self._acknowledged.since(at_ms)
        except AcknowledgementsUnavailable as error:
            raise StoreUnavailable(str(error)) from error

    def _note_acknowledged(self, taken: Iterable[Acknowledged]) -> None:
        """In the file that all processes of the site share. Raises StoreUnavailable."""
        try:
            for one in taken:
                self._acknowledged.add(one.id, one.by_whom, one.at_ms)
        except AcknowledgementsUnavailable as error:
            raise StoreUnavailable(str(error)) from error

    def _do_periodic_work(
        self,
        operations: OperationsStore,
        role: SiteRole,
        events: PublishedEvents,
        wake: Callable[[], None],
        *,
        is_at_end: bool,
    ) -> None:
        """Between two batches, several times a second."""
        if self._takeover.notify_left_in_shadow(operations, role):
            wake()
        if is_at_end:
            is_restored = bool(operations.restored_at_ms)
            if is_restored and self._takeover.notify_since_backup(operations, role):
                wake()
            self._takeover.end_replicated(operations, role, events)
        if time.monotonic() >= self._past_minutes_at_s:
            self._past_minutes_at_s = time.monotonic() + PAST_MINUTES_S
            if operations.notify_past_minutes(wall_clock.now_ms()):
                wake()
        self._events.publish_due(operations, events)
        self._alarm_states.publish_due(
            operations, events, is_at_end=is_at_end, is_primary=role.is_primary
        )
        self._forget(operations)

    def _forget(self, operations: OperationsStore) -> None:
        """A slice of what is past its time, after every batch while there is more."""
        if time.monotonic() < self._forget_at_s:
            return
        now_ms = wall_clock.now_ms()
        operations.forget_site_state(now_ms - self._give_up_ms, now_ms - KEEP_MS)
        if operations.forget(self._keep, now_ms) < SLICE:
            self._forget_at_s = time.monotonic() + FORGET_S
