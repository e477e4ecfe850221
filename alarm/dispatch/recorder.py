"""Fills the operations store from `event.alarm`, `event.incident` and `control.watchlist`.

One process at a time: the one that holds the store's lock file. It delivers the notices, too. The
others of this machine stand by for the lock. Alarms do not wait for it: what it cannot write while
a disk is full it reads from the topics later. Each batch is one transaction with its positions.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from alarm.dispatch.alarm_topic import AlarmTopic
from alarm.dispatch.carried_incidents import CarriedIncident, ended_by_takeover
from alarm.dispatch.decide import raised
from alarm.dispatch.earlier_version import hand_over_position, publish_outbox
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.picture_copier import AlarmPictures, PictureCopier
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.retention import SLICE
from alarm.dispatch.said_events import SaidEvents
from alarm.dispatch.shadow import SETTLED_S
from alarm.rules import NewestCommands
from alarm.settings import DispatcherSettings
from alarm.watchlist_reader import CatchUpTimeout, command_of
from bus.client.committed import unread_records, void_position
from bus.client.kafka.cluster import (
    ClusterUnavailable,
    admin_client,
    wait_for_topics,
)
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import RecordHeaders
from bus.client.kafka.site_role import SiteRole
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.alarms import Acknowledged, Incident
from bus.contracts.commands import WatchCommand
from bus.contracts.groups import DISPATCHER
from bus.contracts.headers import SITE
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    EVENT_ACKNOWLEDGED,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
)
from bus.domain.retention import RetentionSettings
from bus.notify.acknowledgements import KEEP_MS, Acknowledgements, AcknowledgementsUnavailable
from bus.notify.delivery import NoticeDelivery
from bus.notify.notice_plan import NoticePlan
from bus.notify.notifiers import Notifier, notifiers
from bus.notify.settings import NoticeSettings
from bus.runtime import wall_clock
from bus.runtime.tasks import watch
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import Position, StoreError, StoreUnavailable
from ingest.store.positions import valid_positions

log = logging.getLogger(__name__)

RECORDER = "recorder"
READ = (EVENT_ALARM, EVENT_INCIDENT, EVENT_NOTIFIED, EVENT_ACKNOWLEDGED, CONTROL_WATCHLIST)
# The watch list is read from its beginning: it is a state.
KEPT = (EVENT_ALARM, EVENT_INCIDENT, EVENT_NOTIFIED, EVENT_ACKNOWLEDGED)
POLL_TIMEOUT_S = 0.25  # how long a stop may wait for the consumer
LOCK_S = 1.0  # how often one that stands by tries the lock
SAY_S = 1.0  # how late the other site learns that somebody was told, or has acknowledged
FORGET_S = 60.0  # between looks at what is past its time
ROLE_TIMEOUT_S = 10.0  # who does not hear whether the site is a mirror goes on as one that is none
RETRY_S = 2.0  # after a store that could not be written


class OperationsRecorder:
    """A service: `run` until `stopping`. `settled` is set when the worker may begin: nothing of an
    earlier version waits any more, or somebody else sees to it."""

    def __init__(
        self,
        site: SiteSettings,
        bus: BusSettings,
        settings: DispatcherSettings,
        notices: NoticeSettings,
        keep: RetentionSettings,
        pictures: AlarmPictures | None,
        stopping: threading.Event,
        metrics: DispatcherMetrics,
    ) -> None:
        self._metrics = metrics
        self._site = site
        self._bus = bus
        self._settings = settings
        self._notices = notices
        self._keep = keep
        self._pictures = pictures
        self._stopping = stopping
        self._path = settings.operations_path(site)
        self._said = ""
        self._forget_at_s = 0.0
        self._takes_over_at_s = 0.0
        self._ends_carried_at_s = 0.0
        self._say_at_s = 0.0
        self._untold: list[Incident] = []
        self._acknowledged = Acknowledgements(site)
        self.settled = threading.Event()

    async def run(self) -> None:
        """Until stopped. Raises when the bus fails permanently, for a restart."""
        if not self._settings.records:
            self.settled.set()
            return
        configured = notifiers(self._site, self._notices)
        plan = self._notices.plan([one.name for one in configured], self._site.tz)
        try:
            while not self._stopping.is_set():
                operations = await self._open(plan)
                if operations is None:
                    continue
                self._metrics.records_here.set(1)
                copier = self._start_copier(operations)
                try:
                    await self._record_and_deliver(operations, configured)
                except* StoreError as errors:
                    log.error("alarms go on, but are not stored: %s", errors.exceptions[0])
                    await asyncio.to_thread(self._stopping.wait, RETRY_S)
                finally:
                    self._metrics.records_here.set(0)
                    if copier is not None:
                        await asyncio.to_thread(copier.close)
                    operations.close()
        finally:
            for notifier in configured:
                await notifier.close()

    async def _open(self, plan: NoticePlan) -> OperationsStore | None:
        """The store; None, after a pause, while another process writes it or it cannot be."""
        try:
            store = OperationsStore(self._path, plan)
        except (StoreError, OSError) as error:
            if str(error) != self._said:
                log.warning("the operations store is not written from here: %s", error)
            self._said = str(error)
            self.settled.set()
            await asyncio.to_thread(self._stopping.wait, LOCK_S)
            return None
        log.info("dispatcher: this process writes %s", self._path)
        self._said = ""
        return store

    def _start_copier(self, operations: OperationsStore) -> PictureCopier | None:
        if self._pictures is None:
            return None
        return PictureCopier(
            operations.pictures, self._pictures, self._site.tz, self._keep.alarms_days,
            self._metrics,
        ).start()  # fmt: skip

    async def _record_and_deliver(
        self, operations: OperationsStore, configured: Sequence[Notifier]
    ) -> None:
        loop = asyncio.get_running_loop()
        deliveries = [
            NoticeDelivery(
                operations.notices,
                one,
                self._notices.give_up_ms_of(one.name),
                StoreError,
                self._acknowledged.who if one.name in self._notices.escalate_to else None,
                metrics=self._metrics.notices,
            )
            for one in configured
        ]

        def wake() -> None:
            for delivery in deliveries:
                loop.call_soon_threadsafe(delivery.wake)

        async with asyncio.TaskGroup() as tasks:
            # Watched: the group reports a failure only when its other tasks have ended.
            delivering = [
                watch(tasks.create_task(delivery.run(), name="notices")) for delivery in deliveries
            ]
            await asyncio.to_thread(self._record, operations, wake)
            for task in delivering:
                task.cancel()

    def _record(self, operations: OperationsStore, wake: Callable[[], None]) -> None:
        admin = admin_client(self._bus)
        try:
            with closing(TopicFollower(self._bus, READ).start()) as topics:
                while not self._stopping.is_set():
                    cluster = wait_for_topics(admin, (*READ, EVENT_CANDIDATE), self._stopping)
                    self._record_topics(operations, cluster, topics, wake)
        except (ClusterUnavailable, CatchUpTimeout) as error:
            if not self._stopping.is_set():
                raise
            log.info("dispatcher: stopped while the bus was away: %s", error)

    def _record_topics(
        self,
        operations: OperationsStore,
        cluster: ClusterIdentity,
        topics: TopicFollower,
        wake: Callable[[], None],
    ) -> None:
        """Until stopped, or until a topic was made anew or has grown: then from where the store
        stands on the topics as they are."""
        with closing(OperationsReader(self._path)) as reader:
            stored = [*reader.positions(DISPATCHER), *reader.positions(RECORDER)]
        if operations.outbox(1):
            raised_before = AlarmTopic(
                self._site, self._bus, RECORDER, self._stopping
            )
            publish_outbox(operations, raised_before)
        hand_over_position(operations, stored, self._bus, cluster)
        self.settled.set()
        newest = NewestCommands()
        with (
            Consumer(self._bus, client_id=RECORDER, overrides=FOLLOWS_LEADERS) as consumer,
            closing(SiteRole(self._bus, f"{RECORDER}-role").start()) as role,
            closing(SaidEvents(self._bus, f"{RECORDER}-said")) as events,
        ):
            role.wait_until_known(ROLE_TIMEOUT_S)
            self._takes_over_at_s = self._ends_carried_at_s = time.monotonic() + SETTLED_S
            positions = _starting_positions(stored, cluster)
            consumer.assign(positions)
            while not self._stopping.is_set():
                if renewed := topics.renewed(cluster, READ):
                    self._note_unread(renewed, cluster, topics, positions)
                    return
                messages = consumer.poll(self._settings.max_batch, POLL_TIMEOUT_S)
                if messages:
                    changes = self._changes(messages, newest, cluster, role.secondary_since_ms)
                    self._note_acknowledged(changes.acknowledged)
                    operations.apply(changes)
                    if changes.foreign_alarms:
                        # The last ones of a former primary come after it has ceased to be one.
                        self._takes_over_at_s = time.monotonic() + SETTLED_S
                    if changes.foreign_incidents:
                        self._ends_carried_at_s = time.monotonic() + SETTLED_S
                    positions |= {
                        TopicPartition(m.topic, m.partition): m.offset + 1 for m in messages
                    }
                    self._metrics.records.inc(len(messages))
                    wake()
                if self._notify_left_in_shadow(operations, role):
                    wake()
                if consumer.at_end:
                    if operations.restored_at_ms and self._notify_since_backup(operations, role):
                        wake()
                    self._end_carried(operations, role, events)
                self._say(operations, events)
                self._forget(operations)

    def _say(self, operations: OperationsStore, events: SaidEvents) -> None:
        """Once a second, who was told and who has taken what in hand; what the brokers do not take
        is said again."""
        if time.monotonic() < self._say_at_s:
            return
        self._say_at_s, now_ms = time.monotonic() + SAY_S, wall_clock.now_ms()
        if self._untold:
            told = events.publish(EVENT_INCIDENT, [(one.incident_id, one) for one in self._untold])
            self._untold = [one for one in self._untold if one not in told]
        notified = operations.newly_notified(now_ms)
        if notified:
            said = events.publish(EVENT_NOTIFIED, [(one.alarm_id, one) for one in notified])
            operations.mark_said(said)
        try:
            taken = self._acknowledged.since(now_ms - KEEP_MS)
        except AcknowledgementsUnavailable as error:
            log.warning("the other site hears later who has taken what in hand: %s", error)
            return
        known = operations.said_acknowledged() if taken else set()
        new = [(one.id, one) for one in taken if one.id not in known]
        if new:
            operations.mark_acknowledged_said(events.publish(EVENT_ACKNOWLEDGED, new))

    def _note_unread(
        self,
        renewed: Iterable[str],
        cluster: ClusterIdentity,
        topics: TopicFollower,
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """What is lost with topics that were made anew. The watch list is a state: the new topic
        says all of it, and that it was made anew is told at any rate."""
        now = topics.identity
        for topic in sorted(renewed):
            before, topic_id = cluster.topic_ids[topic], now.topic_ids[topic] if now else ""
            if before == topic_id:
                continue
            log.warning("dispatcher: %s was made anew: read from its start", topic)
            now_ms = wall_clock.now_ms()
            if topic not in KEPT:
                self._untold += void_position(RECORDER, topic, topic_id, now_ms)
                continue
            places = {(p.topic, p.partition): max(0, at) for p, at in positions.items()}
            unread = topics.unread(topic, before, places)
            self._untold += unread_records(RECORDER, topic, topic_id, unread, now_ms)

    def _note_acknowledged(self, taken: Iterable[Acknowledged]) -> None:
        """In the file that all processes of the site share. Raises StoreUnavailable."""
        try:
            for one in taken:
                self._acknowledged.add(one.id, one.by_whom, one.at_ms)
        except AcknowledgementsUnavailable as error:
            raise StoreUnavailable(str(error)) from error

    def _notify_left_in_shadow(self, operations: OperationsStore, role: SiteRole) -> int:
        """How many alarms that were decided in shadow are notified now."""
        now_s = time.monotonic()
        if role.secondary_since_ms is not None:
            self._takes_over_at_s = now_s + SETTLED_S
        if now_s < self._takes_over_at_s:
            return 0
        now_ms = wall_clock.now_ms()
        count = operations.notify_left_in_shadow(now_ms - self._notices.give_up_ms, now_ms)
        if count:
            log.warning("dispatcher: %d alarms are notified that may have been sent before", count)
            self._metrics.perhaps_sent_before.inc(count)
        else:
            self._takes_over_at_s = math.inf  # until this site has been secondary once more
        return count

    def _notify_since_backup(self, operations: OperationsStore, role: SiteRole) -> int:
        """How many alarms and incidents of before a restore are notified now."""
        now_ms = wall_clock.now_ms()
        try:
            acknowledged = {one.id for one in self._acknowledged.since(now_ms - KEEP_MS)}
        except AcknowledgementsUnavailable as error:
            raise StoreUnavailable(str(error)) from error
        is_secondary = role.secondary_since_ms is not None
        count = operations.notify_since_backup(acknowledged, now_ms, is_secondary=is_secondary)
        log.warning(
            "dispatcher: a backup was restored; %d alarms and incidents since are notified that may"
            " have been sent before", count,
        )  # fmt: skip
        self._metrics.perhaps_sent_before.inc(count)
        return count

    def _end_carried(
        self, operations: OperationsStore, role: SiteRole, events: SaidEvents
    ) -> None:
        """Incidents that only the other site has raised end here when this one is the primary. It
        has everything by then: what that site still had to say, and what this one has said before
        it was killed. The end has the header of the opening: it is not carried to the site that
        may still have the incident open, and it is notified to nobody."""
        now_s = time.monotonic()
        if role.secondary_since_ms is not None:
            self._ends_carried_at_s = now_s + SETTLED_S
        if role.primary_at_s < self._ends_carried_at_s:
            return
        due = operations.carried_open()
        if not due:
            self._ends_carried_at_s = math.inf  # until one is carried, or this site is secondary
            return
        now_ms = wall_clock.now_ms()
        ends = [ended_by_takeover(one, now_ms) for one, _ in due]
        origins = {one.incident_id: origin for one, origin in due}
        headers: dict[str, RecordHeaders] = {
            name: [(SITE, self._site.name), (MIRROR_ORIGIN, origin)]
            for name, origin in origins.items()
        }
        said = events.publish(EVENT_INCIDENT, [(one.incident_id, one) for one in ends], headers)
        log.warning(
            "dispatcher: %d of %d open incidents of the former primary end here",
            len(said), len(due),
        )  # fmt: skip
        carried = [CarriedIncident(one, origins[one.incident_id]) for one in said]
        operations.apply(BatchChanges(foreign_incidents=carried, now_ms=now_ms))
        if len(said) < len(due):
            self._ends_carried_at_s = now_s + SETTLED_S

    def _forget(self, operations: OperationsStore) -> None:
        """A slice of what is past its time, after every batch while there is more."""
        if time.monotonic() < self._forget_at_s:
            return
        now_ms = wall_clock.now_ms()
        operations.forget_site_state(now_ms - self._notices.give_up_ms, now_ms - KEEP_MS)
        if operations.forget(self._keep, now_ms) < SLICE:
            self._forget_at_s = time.monotonic() + FORGET_S

    def _changes(
        self,
        messages: Sequence[ConsumedRecord],
        newest: NewestCommands,
        cluster: ClusterIdentity,
        shadow_since_ms: int | None,
    ) -> BatchChanges:
        """A notice that would be given up at its first failure is not made at all: a file that was
        lost is filled from a month of alarms."""
        now_ms = wall_clock.now_ms()
        found = raised(one for one in messages if one.header(MIRROR_ORIGIN) is None)
        foreign = raised(one for one in messages if one.header(MIRROR_ORIGIN) is not None)
        for reason in [*found.unreadable, *foreign.unreadable]:
            log.error("%s", reason)
        return BatchChanges(
            commands=_commands(messages, newest),
            alarms=found.alarms,
            incidents=found.incidents,
            shadow_since_ms=shadow_since_ms,
            foreign_alarms=foreign.alarms,
            foreign_incidents=[
                CarriedIncident(one, foreign.origins[one.incident_id]) for one in foreign.incidents
            ],
            foreign_notified=foreign.notified,
            notified=found.notified,
            acknowledged=[*found.acknowledged, *foreign.acknowledged],
            positions=_positions(messages, cluster),
            notify_since_ms=now_ms - self._notices.give_up_ms,
            now_ms=now_ms,
        )


def _commands(messages: Iterable[ConsumedRecord], newest: NewestCommands) -> list[WatchCommand]:
    """Those that change the rules in force."""
    read = (command_of(each) for each in messages if each.topic == CONTROL_WATCHLIST)
    return [command for command in read if command is not None and newest.apply(command)]


def _starting_positions(
    stored: Iterable[Position], cluster: ClusterIdentity
) -> dict[TopicPartition, int]:
    """The stored positions that are still valid in this cluster, else the beginning: what is stored
    already is known by its id."""
    valid = valid_positions(stored, cluster)
    read = [partition for partition in cluster.partitions if partition[0] in READ]
    return {TopicPartition(*partition): valid.get(partition, BEGINNING) for partition in read}


def _positions(messages: Sequence[ConsumedRecord], cluster: ClusterIdentity) -> list[Position]:
    ends = {
        (m.topic, m.partition): m.offset + 1 for m in messages if m.topic in KEPT
    }  # ascending: the last one counts
    return [
        Position(
            application=RECORDER,
            cluster_id=cluster.cluster_id,
            topic=topic,
            topic_id=cluster.topic_ids[topic],
            partition=partition,
            end_offset=end_offset,
        )
        for (topic, partition), end_offset in sorted(ends.items())
    ]
