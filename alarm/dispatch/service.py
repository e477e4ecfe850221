"""The dispatcher decides on candidates once per rule and record, and publishes alarms.

Stores a position in one transaction with the alarms of its batch. No alarm is raised twice, since
its id is a key, and none is lost: it stays in the outbox until the broker has acknowledged it.
Core: `alarm.dispatch.decide`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from alarm.dispatch.decide import decide
from alarm.dispatch.delivery import NotificationDelivery
from alarm.dispatch.notifiers import notifiers
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from alarm.settings import DispatcherSettings
from alarm.watchlist_reader import CatchUpTimeout, WatchlistReader
from bus import wall_clock
from bus.client.kafka.cluster import admin_client, wait_for_topics
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import AsyncProducer, RecordMetadata
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicPartition
from bus.contracts.alarms import Alarm
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    TOPICS,
)
from bus.errors import BusError
from bus.settings import BusSettings, SiteSettings
from bus.tasks import watch
from ingest.store.port import Position
from ingest.store.positions import valid_positions

log = logging.getLogger(__name__)

APPLICATION = "dispatcher"
READ = (EVENT_CANDIDATE, EVENT_INCIDENT)
POLL_TIMEOUT_S = 0.25  # how long a stop may wait for the consumer
LAST_DELIVERIES_S = (
    2.0  # how long a stop waits for acknowledgements: a bus that is there needs less
)


class AlarmDispatcher:
    """One process. Core: `decide`; all its state is in the operations store or on the bus."""

    def __init__(self, site: SiteSettings, bus: BusSettings, settings: DispatcherSettings) -> None:
        self._site = site
        self._bus = bus
        self._settings = settings
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Asks `run` to return."""
        self._stopping.set()

    async def run(self) -> None:
        """Runs until stopped. Raises when store or bus fail permanently, for a restart."""
        path = self._settings.operations_path(self._site)
        configured = notifiers(self._site, self._settings)
        operations = OperationsStore(path, [notifier.name for notifier in configured])
        delivery = NotificationDelivery(operations, configured, self._settings)
        producer = AsyncProducer(self._bus, client_id=APPLICATION, overrides={"linger.ms": 0})
        try:
            async with asyncio.TaskGroup() as tasks:
                # Watched: the group reports a failure only when its other tasks have ended.
                delivering = watch(tasks.create_task(delivery.run(), name="notices"))
                await self._dispatch(path, operations, producer, delivery)
                delivering.cancel()
        finally:
            self._stopping.set()  # a wait in a thread must not outlast this object
            await delivery.close()
            await producer.close()
            operations.close()

    async def _dispatch(
        self,
        path: Path,
        operations: OperationsStore,
        producer: AsyncProducer,
        delivery: NotificationDelivery,
    ) -> None:
        admin = admin_client(self._bus.bootstrap_servers)
        topics = (*READ, CONTROL_WATCHLIST, EVENT_ALARM)
        cluster = await asyncio.to_thread(wait_for_topics, admin, topics, self._stopping)
        watchlist = await asyncio.to_thread(
            WatchlistReader, self._bus, admin, f"{APPLICATION}-commands", stopping=self._stopping
        )
        consumer = Consumer(self._bus, client_id=APPLICATION)
        try:
            consumer.assign(_starting_positions(path, cluster))
            operations.apply(BatchChanges(commands=await asyncio.to_thread(watchlist.catch_up)))
            log.info("dispatcher: ready, %d rules in force", len(watchlist.rules))
            while not self._stopping.is_set():
                changes = await asyncio.to_thread(self._next_changes, consumer, watchlist, cluster)
                if changes is not None:
                    operations.apply(changes)
                    delivery.wake()
                await self._publish(operations, producer)
        except CatchUpTimeout as error:
            if not self._stopping.is_set():
                raise
            log.info("dispatcher: stopped while the bus was away: %s", error)
        finally:
            watchlist.close()
            consumer.close()

    def _next_changes(
        self, consumer: Consumer, watchlist: WatchlistReader, cluster: ClusterIdentity
    ) -> BatchChanges | None:
        """Decides on the next batch; None if there is nothing. Reads the commands after the
        candidates, so that each candidate meets the rule that it was found by.
        """
        messages = consumer.poll(self._settings.max_batch, POLL_TIMEOUT_S)
        new_commands = watchlist.catch_up()
        if not messages and not new_commands:
            return None
        decisions = decide(messages, watchlist.rules, wall_clock.now_ms())
        for reason in decisions.unreadable:
            log.error("%s", reason)
        return BatchChanges(
            commands=new_commands,
            alarms=decisions.alarms,
            incidents=decisions.incidents,
            positions=_positions(messages, cluster),
        )

    async def _publish(self, operations: OperationsStore, producer: AsyncProducer) -> None:
        """Publishes the outbox as far as the bus accepts it; the rest stays for the next batch."""
        while pending := operations.outbox(self._settings.max_batch):
            sent = [await self._enqueue(producer, alarm) for _, alarm in pending]
            answers = await self._await_deliveries(sent)
            done = [p[0] for p, a in zip(pending, answers, strict=True) if not _failed(a)]
            operations.mark_produced(done)
            if len(done) < len(pending):
                return

    async def _await_deliveries(
        self, sent: Sequence[asyncio.Future[RecordMetadata]]
    ) -> list[object]:
        """The result of each delivery; None for those that a stop does not wait for, which stay in
        the outbox: without the bus, librdkafka would go on trying until its own timeout."""
        waiting: set[asyncio.Future[RecordMetadata]] = set(sent)
        while waiting and not self._stopping.is_set():
            _, waiting = await asyncio.wait(waiting, timeout=POLL_TIMEOUT_S)
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=LAST_DELIVERIES_S)
        for left in waiting:  # a later failure is ignored
            left.add_done_callback(lambda late: late.cancelled() or late.exception())
        return [one.exception() or one.result() if one.done() else None for one in sent]

    async def _enqueue(
        self, producer: AsyncProducer, alarm: Alarm
    ) -> asyncio.Future[RecordMetadata]:
        headers = [(SCHEMA, TOPICS[EVENT_ALARM].schema), (SITE, self._site.name)]
        return await producer.enqueue(
            EVENT_ALARM, msgspec.json.encode(alarm), key=alarm.rule_id, headers=headers
        )


async def serve(site: SiteSettings, bus: BusSettings, settings: DispatcherSettings) -> None:
    """Runs until SIGTERM or Ctrl-C."""
    dispatcher = AlarmDispatcher(site, bus, settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, dispatcher.stop)
    await dispatcher.run()


def _failed(answer: object) -> bool:
    if answer is None:
        return True
    if isinstance(answer, BusError):
        log.warning("dispatcher: an alarm waits in the outbox: %s", answer)
        return True
    if isinstance(answer, BaseException):
        raise answer
    return False


def _starting_positions(path: Path, cluster: ClusterIdentity) -> dict[TopicPartition, int]:
    """The stored positions that are still valid in this cluster, else the beginning."""
    reader = OperationsReader(path)
    stored = valid_positions(reader.positions(APPLICATION), cluster)
    reader.close()
    read = [partition for partition in cluster.partitions if partition[0] in READ]
    return {TopicPartition(*partition): stored.get(partition, BEGINNING) for partition in read}


def _positions(messages: Sequence[ConsumedRecord], cluster: ClusterIdentity) -> list[Position]:
    ends = {
        (m.topic, m.partition): m.offset + 1 for m in messages
    }  # ascending: the last one counts
    return [
        Position(
            application=APPLICATION,
            cluster_id=cluster.cluster_id,
            topic=topic,
            topic_id=cluster.topic_ids[topic],
            partition=partition,
            end_offset=end_offset,
        )
        for (topic, partition), end_offset in sorted(ends.items())
    ]
