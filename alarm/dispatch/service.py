"""The dispatcher: candidates → verdicts, once per rule and record → `event.alarm` and people.

In: `event.candidate`, `event.incident`, `control.watchlist`. Out: the operations store, alarms
on their topic, notices. Never: a position stored without what it led to; an alarm told twice
(its id) or lost (it leaves by the outbox, which empties only on the broker's acknowledgement).
Core: `alarm.dispatch.state`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from alarm.commands import Commands, CommandsUnread
from alarm.dispatch.notifiers import notifiers
from alarm.dispatch.operations import Decided, Operations
from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.state import decide
from alarm.dispatch.telling import Telling
from alarm.settings import DispatcherSettings
from bus.client.cluster import admin_client, wait_for
from bus.client.consumer import BEGINNING, Consumer
from bus.client.model import Cluster, Place, Received
from bus.client.producer import AsyncProducer, Delivery
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

log = logging.getLogger(__name__)

APPLICATION = "dispatcher"
READ = (EVENT_CANDIDATE, EVENT_INCIDENT)
TAKE_TIMEOUT_S = 0.25  # how long a stop may wait for the consumer
LAST_ANSWERS_S = 2.0  # how long a stop waits for acknowledgements: a bus that is there needs less


class Dispatcher:
    """One process. Core: `decide`; everything it keeps is in the operations store or on the bus."""

    def __init__(self, site: SiteSettings, bus: BusSettings, settings: DispatcherSettings) -> None:
        self._site = site
        self._bus = bus
        self._settings = settings
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stopping.set()

    async def run(self) -> None:
        """Until stopped. Raises when store or bus fail for good; the supervisor starts anew."""
        path = self._settings.operations_path(self._site)
        told = notifiers(self._site, self._settings)
        operations = Operations(path, [notifier.name for notifier in told])
        telling = Telling(operations, told, self._settings)
        producer = AsyncProducer(self._bus, client_id=APPLICATION, overrides={"linger.ms": 0})
        try:
            async with asyncio.TaskGroup() as tasks:
                # Watched: a failure of the group is heard only when its other tasks have ended.
                speaking = watch(tasks.create_task(telling.run(), name="notices"))
                await self._judge(path, operations, producer, telling)
                speaking.cancel()
        finally:
            self._stopping.set()  # whatever waits in a thread must not outlive us
            await telling.close()
            await producer.close()
            operations.close()

    async def _judge(
        self, path: Path, operations: Operations, producer: AsyncProducer, telling: Telling
    ) -> None:
        admin = admin_client(self._bus.bootstrap_servers)
        topics = (*READ, CONTROL_WATCHLIST, EVENT_ALARM)
        cluster = await asyncio.to_thread(wait_for, admin, topics, self._stopping)
        commands = await asyncio.to_thread(
            Commands, self._bus, admin, f"{APPLICATION}-commands", stopping=self._stopping
        )
        consumer = Consumer(self._bus, client_id=APPLICATION)
        try:
            consumer.assign(_starts(path, cluster))
            operations.apply(Decided(commands=await asyncio.to_thread(commands.drain)))
            log.info("dispatcher: ready, %d rules in force", len(commands.rules))
            while not self._stopping.is_set():
                decided = await asyncio.to_thread(self._next, consumer, commands, cluster)
                if decided is not None:
                    operations.apply(decided)
                    telling.wake()
                await self._publish(operations, producer)
        except CommandsUnread as error:
            if not self._stopping.is_set():
                raise
            log.info("dispatcher: stopped while the bus was away: %s", error)
        finally:
            commands.close()
            consumer.close()

    def _next(self, consumer: Consumer, commands: Commands, cluster: Cluster) -> Decided | None:
        """The next batch, judged; the commands after the candidates were taken, so that none of
        them is older than its rule.
        """
        messages = consumer.take(self._settings.max_batch, TAKE_TIMEOUT_S)
        new_commands = commands.drain()
        if not messages and not new_commands:
            return None
        outcome = decide(messages, commands.rules, _now_ms())
        for reason in outcome.unreadable:
            log.error("%s", reason)
        return Decided(
            commands=new_commands,
            alarms=outcome.alarms,
            incidents=outcome.incidents,
            positions=_positions(messages, cluster),
        )

    async def _publish(self, operations: Operations, producer: AsyncProducer) -> None:
        """Empty the outbox as far as the bus takes it; the rest stays for the next time."""
        while pending := operations.outbox(self._settings.max_batch):
            sent = [await self._enqueue(producer, alarm) for _, alarm in pending]
            answers = await self._answers(sent)
            done = [p[0] for p, a in zip(pending, answers, strict=True) if not _failed(a)]
            operations.produced(done)
            if len(done) < len(pending):
                return

    async def _answers(self, sent: Sequence[asyncio.Future[Delivery]]) -> list[object]:
        """What became of each; None for what a stop does not wait for: it stays in the outbox. With
        the bus away a delivery would be waited for as long as librdkafka tries."""
        waiting: set[asyncio.Future[Delivery]] = set(sent)
        while waiting and not self._stopping.is_set():
            _, waiting = await asyncio.wait(waiting, timeout=TAKE_TIMEOUT_S)
        if waiting:
            _, waiting = await asyncio.wait(waiting, timeout=LAST_ANSWERS_S)
        for left in waiting:  # a failure that comes later concerns nobody
            left.add_done_callback(lambda late: late.cancelled() or late.exception())
        return [one.exception() or one.result() if one.done() else None for one in sent]

    async def _enqueue(self, producer: AsyncProducer, alarm: Alarm) -> asyncio.Future[Delivery]:
        headers = [(SCHEMA, TOPICS[EVENT_ALARM].schema), (SITE, self._site.name)]
        return await producer.enqueue(
            EVENT_ALARM, msgspec.json.encode(alarm), key=alarm.rule_id, headers=headers
        )


async def serve(site: SiteSettings, bus: BusSettings, settings: DispatcherSettings) -> None:
    """Run until SIGTERM or Ctrl-C."""
    dispatcher = Dispatcher(site, bus, settings)
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


def _starts(path: Path, cluster: Cluster) -> dict[Place, int]:
    """The stored positions where they still mean something, else the beginning."""
    reader = OperationsReader(path)
    stored = {
        (p.topic, p.partition): p.end_offset
        for p in reader.positions(APPLICATION)
        if p.cluster_id == cluster.cluster_id and cluster.topic_ids.get(p.topic) == p.topic_id
    }
    reader.close()
    read = [partition for partition in cluster.partitions if partition[0] in READ]
    return {Place(*partition): stored.get(partition, BEGINNING) for partition in read}


def _positions(messages: Sequence[Received], cluster: Cluster) -> list[Position]:
    ends = {(m.topic, m.partition): m.offset + 1 for m in messages}  # in order: the last one counts
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
