"""One ordered line of requests to each broker: what each of them must still be told.

In: which partitions changed, which replicas go. Out: LeaderAndIsr, then UpdateMetadata, then
StopReplica, one request in flight per broker, repeated until the broker answers or has gone.
Never: a decision.

A line holds no requests but the names of what changed, and each request is made of the newest
image when its turn comes. So a line is never longer than there are partitions, a slow broker skips
states that nobody needs any more, and it never hears an older state after a newer one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk.requests import (
    Author,
    PartitionId,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from broker.metadata.image import MetadataImage, TopicImage
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey

log = logging.getLogger("broker.controller.zk")

RETRY_S = 0.3
"""Between two tries to tell a broker something (Kafka's own pause, C-COM-08)."""

MAX_PARTITIONS_PER_REQUEST = 5_000
"""One request stays near half a megabyte, and a broker can serve clients between two of them."""

_FENCED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH)

Send = Callable[[int, int, object], Awaitable[Any]]
"""broker id, API key, body -> response; raises `SendError` when there is none."""


class SendError(Exception):
    """No answer from a broker."""


@dataclass(slots=True)
class Due:
    """What one broker has not confirmed yet. `full` asks for a FULL UpdateMetadata."""

    isr: dict[PartitionId, None] = field(default_factory=dict)
    metadata: dict[PartitionId, None] = field(default_factory=dict)
    deleted: dict[bytes, TopicImage] = field(default_factory=dict)
    stops: dict[tuple[str, int], int] = field(default_factory=dict)
    full: bool = False
    brokers: bool = False

    def __bool__(self) -> bool:
        return bool(
            self.isr or self.metadata or self.deleted or self.stops or self.full or self.brokers
        )


@dataclass(frozen=True, slots=True)
class Answers:
    """Who hears what brokers answer."""

    isr_errors: Callable[[int, dict[PartitionId, ErrorCode]], None]
    stopped: Callable[[int, dict[tuple[str, int], ErrorCode]], None]
    fenced: Callable[[int, ErrorCode], None]


class Line:
    """The line to one broker.

    Invariant: `_due` is what the broker has not answered; at most one request is on its way.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        author: Callable[[int], Author],
        image: Callable[[], MetadataImage],
        send: Send,
        answers: Answers,
        clock: Clock,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._author = author
        self._image = image
        self._send = send
        self._answers = answers
        self._clock = clock
        self._due = Due()
        self._wake = asyncio.Event()
        self.confirmed = asyncio.Event()
        self._task: TaskHandle | None = None

    def start(self) -> None:
        """Begin to send."""
        self._task = self._clock.spawn(
            self._run(), name=f"controller-to-broker-{self.broker_id}"
        )

    def stop(self) -> None:
        """Send nothing more; nobody waits for this broker any longer."""
        self.confirmed.set()
        if self._task is not None:
            self._task.cancel()

    @property
    def idle(self) -> bool:
        """Whether the broker has confirmed everything."""
        return not self._due

    @property
    def due(self) -> Due:
        """To add to; call `wake` then."""
        return self._due

    def wake(self) -> None:
        """Something is due."""
        self.confirmed.clear()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                try:
                    await self._tell()
                except SendError as error:
                    log.info("broker %d was not told: %s", self.broker_id, error)
                    await self._clock.sleep(RETRY_S)
            self.confirmed.set()

    async def _tell(self) -> None:
        due = self._due
        if due.isr:
            await self._tell_isr(due)
        elif due.metadata or due.deleted or due.full or due.brokers:
            await self._tell_metadata(due)
        else:
            await self._tell_stops(due)

    async def _tell_isr(self, due: Due) -> None:
        chosen = _some(due.isr)
        body = leader_and_isr(self._image(), chosen, self._author(self.broker_epoch))
        for one in chosen:
            del due.isr[one]
        try:
            response = await self._told(ApiKey.LEADER_AND_ISR, body)
        except SendError:
            due.isr |= dict.fromkeys(chosen)
            raise
        if self._accepted(response.error_code):
            self._answers.isr_errors(
                self.broker_id,
                {
                    (topic.topic_id, one.partition_index): ErrorCode.of(one.error_code)
                    for topic in response.topics
                    for one in topic.partition_errors
                    if one.error_code
                },
            )

    async def _tell_metadata(self, due: Due) -> None:
        full, due.full, due.brokers = due.full, False, False
        deleted, due.deleted = due.deleted, {}
        chosen = list(due.metadata) if full else _some(due.metadata)
        image = self._image()
        everything = [(t.topic_id, p.index) for t, p in image.partitions()] if full else chosen
        body = update_metadata(
            image, everything, self._author(self.broker_epoch),
            deleted=deleted.values(), full=full,
        )  # fmt: skip
        for one in chosen:
            del due.metadata[one]
        try:
            response = await self._told(ApiKey.UPDATE_METADATA, body)
        except SendError:
            due.metadata |= dict.fromkeys(chosen)
            due.deleted = deleted | due.deleted
            due.full = due.full or full
            due.brokers = True
            raise
        self._accepted(response.error_code)

    async def _tell_stops(self, due: Due) -> None:
        stops = {one: due.stops[one] for one in _some(due.stops)}
        body = stop_replica(stops, self._author(self.broker_epoch))
        for one in stops:
            del due.stops[one]
        try:
            response = await self._told(ApiKey.STOP_REPLICA, body)
        except SendError:
            due.stops = stops | due.stops
            raise
        whole = ErrorCode.of(response.error_code)
        results = dict.fromkeys(stops, whole)
        results |= {
            (one.topic_name, one.partition_index): whole or ErrorCode.of(one.error_code)
            for one in response.partition_errors
            if (one.topic_name, one.partition_index) in stops
        }
        self._accepted(response.error_code)
        self._answers.stopped(self.broker_id, results)

    async def _told(self, key: ApiKey, body: object) -> Any:
        """The broker's answer; one that it could not carry out is sent again."""
        response = await self._send(self.broker_id, key, body)
        if ErrorCode.of(response.error_code) in (ErrorCode.NONE, *_FENCED):
            return response
        raise SendError(f"{key.name}: {ErrorCode.of(response.error_code).name}")

    def _accepted(self, error_code: int) -> bool:
        """Whether the request was followed. A broker that lives another life is heard of by its
        znode; one that knows a newer controller means that this one must look."""
        error = ErrorCode.of(error_code)
        if error is not ErrorCode.NONE:
            log.warning("broker %d refuses: %s", self.broker_id, error.name)
            self._answers.fenced(self.broker_id, error)
        return error is ErrorCode.NONE


def _some(due: dict[Any, Any]) -> list[Any]:
    return list(due)[:MAX_PARTITIONS_PER_REQUEST]


class Lines:
    """All lines of one controller."""

    def __init__(self, make: Callable[[int, int], Line]) -> None:
        self._make = make
        self._lines: dict[int, Line] = {}

    def open(self, broker_id: int, broker_epoch: int) -> Line:
        """A new line to a broker; what was due to its former life is dropped."""
        self.close(broker_id)
        line = self._lines[broker_id] = self._make(broker_id, broker_epoch)
        line.start()
        return line

    def close(self, broker_id: int) -> None:
        """The broker has gone."""
        line = self._lines.pop(broker_id, None)
        if line is not None:
            line.stop()

    def close_all(self) -> None:
        """Only an active controller speaks to others (C-RS-07)."""
        for broker_id in list(self._lines):
            self.close(broker_id)

    def get(self, broker_id: int) -> Line | None:
        """The line to a broker that is here."""
        return self._lines.get(broker_id)

    def all(self) -> list[Line]:
        """In the order of the brokers' ids."""
        return [self._lines[broker_id] for broker_id in sorted(self._lines)]

    async def confirmed(self) -> None:
        """Until every broker has confirmed what was due to it."""
        for line in self.all():
            await line.confirmed.wait()

    def wake(self) -> None:
        """Send whatever is due."""
        for line in self.all():
            if not line.idle:
                line.wake()
