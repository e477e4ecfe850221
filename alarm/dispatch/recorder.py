"""Fills the operations store from `event.alarm`, `event.incident` and `state.watchlist`.

One process at a time: the one that holds the store's lock file. It delivers the notices, too. The
others of this machine stand by for the lock. Alarms do not wait for it: what it cannot write while
a disk is full it reads from the topics later. What is read is `TopicRecording`'s.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing

from alarm.dispatch.alarm_topic import AlarmTopic
from alarm.dispatch.earlier_version import hand_over_position, publish_outbox
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import OperationsStore
from alarm.dispatch.picture_copier import AlarmPictures, PictureCopier
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.recorded_changes import READ, RECORDER
from alarm.dispatch.table_maintenance import TableMaintenance
from alarm.dispatch.topic_recording import TopicRecording
from alarm.settings import DispatcherSettings
from alarm.watchlist_reader import CatchUpTimeout
from bus.client.kafka.cluster import ClusterUnavailable, admin_client, wait_for_topics
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import EVENT_CANDIDATE
from bus.domain.retention import RetentionSettings
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.delivery import NoticeDelivery
from bus.notify.notice_plan import NoticePlan
from bus.notify.notifiers import Notifier, notifiers, recipient_notifiers
from bus.notify.settings import NoticeSettings
from bus.runtime.tasks import watch
from bus.settings import BusSettings, SiteSettings
from ingest.store.port import StoreError

log = logging.getLogger(__name__)

LOCK_S = 1.0  # how often one that stands by tries the lock
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
        self._logged = ""
        self._acknowledged = Acknowledgements(site)
        self._recording = TopicRecording(
            site, bus, settings, notices, keep, self._acknowledged, stopping, metrics
        )
        self.settled = threading.Event()

    async def run(self) -> None:
        """Until stopped. Raises when the bus fails permanently, for a restart."""
        if not self._settings.records:
            self.settled.set()
            return
        configured = [
            *notifiers(self._site, self._notices), *recipient_notifiers(self._site, self._notices),
        ]  # fmt: skip
        plan = self._notices.plan([one.name for one in configured], self._site.tz)
        try:
            while not self._stopping.is_set():
                operations = await self._open(plan)
                if operations is None:
                    continue
                self._metrics.records_here.set(1)
                copier = self._start_copier(operations)
                tables = TableMaintenance(self._site, self._bus, self._keep).start()
                try:
                    await self._record_and_deliver(operations, configured)
                except* StoreError as errors:
                    log.error("alarms go on, but are not stored: %s", errors.exceptions[0])
                    await asyncio.to_thread(self._stopping.wait, RETRY_S)
                finally:
                    self._metrics.records_here.set(0)
                    if copier is not None:
                        await asyncio.to_thread(copier.close)
                    await asyncio.to_thread(tables.close)
                    operations.close()
        finally:
            for notifier in configured:
                await notifier.close()

    async def _open(self, plan: NoticePlan) -> OperationsStore | None:
        """The store; None, after a pause, while another process writes it or it cannot be."""
        try:
            store = OperationsStore(self._path, plan)
        except (StoreError, OSError) as error:
            if str(error) != self._logged:
                log.warning("the operations store is not written from here: %s", error)
            self._logged = str(error)
            self.settled.set()
            await asyncio.to_thread(self._stopping.wait, LOCK_S)
            return None
        log.info("dispatcher: this process writes %s", self._path)
        self._logged = ""
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
        """From where the store stands on the topics as they are, what an earlier version left
        behind first."""
        with closing(OperationsReader(self._path)) as reader:
            stored = [*reader.positions(DISPATCHER), *reader.positions(RECORDER)]
        if operations.outbox(1):
            raised_before = AlarmTopic(self._site, self._bus, RECORDER, self._stopping)
            publish_outbox(operations, raised_before)
        hand_over_position(operations, stored, self._bus, cluster)
        self.settled.set()
        self._recording.run(operations, stored, cluster, topics, wake)
