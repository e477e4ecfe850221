"""One queue of requests per broker: the updates that it has not confirmed.

In: which partitions changed, which replicas are deleted. Out: LeaderAndIsr, then UpdateMetadata,
then StopReplica, one request in flight per broker, repeated until the broker responds or is gone.
Never: a decision.

A queue holds no requests but the names of what changed, and each request is built from the newest
image when its turn comes. So a queue is never longer than there are partitions, a slow broker skips
states that are outdated, and it never gets an older state after a newer one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk.requests import (
    PartitionId,
    Sender,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from broker.metadata.image import MetadataImage, TopicImage
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey

log = logging.getLogger("broker.controller.zk")

RETRY_S = 0.3
"""The pause between two attempts to send a request (Kafka's own, C-COM-08)."""

MAX_PARTITIONS_PER_REQUEST = 5_000
"""Keeps a request near half a megabyte; the broker can serve clients between two of them."""

_FENCED = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH)

SendToBroker = Callable[[int, int, object], Awaitable[Any]]
"""broker id, API key, body -> response; raises `SendError` when there is none."""


class SendError(Exception):
    """A broker did not respond."""


@dataclass(slots=True)
class PendingUpdates:
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
class ResponseHandlers:
    """Callbacks for brokers' responses."""

    isr_errors: Callable[[int, dict[PartitionId, ErrorCode]], None]
    stopped: Callable[[int, dict[tuple[str, int], ErrorCode]], None]
    fenced: Callable[[int, ErrorCode], None]
    on_contact: Callable[[int, int], None]
    """A broker has accepted a request under this broker epoch: its process is alive."""


class BrokerRequestQueue:
    """The queue of one broker.

    Invariant: `_pending` is what the broker has not confirmed; at most one request is in flight.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: int,
        sender: Callable[[int], Sender],
        image: Callable[[], MetadataImage],
        send: SendToBroker,
        handlers: ResponseHandlers,
        clock: Clock,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self._sender = sender
        self._image = image
        self._send = send
        self._handlers = handlers
        self._clock = clock
        self._pending = PendingUpdates()
        self._wake = asyncio.Event()
        self.confirmed = asyncio.Event()
        self._task: TaskHandle | None = None

    def start(self) -> None:
        """Starts sending."""
        self._task = self._clock.spawn(
            self._run(), name=f"controller-to-broker-{self.broker_id}"
        )

    def stop(self) -> None:
        """Stops sending; waiting for this broker ends too."""
        self.confirmed.set()
        if self._task is not None:
            self._task.cancel()

    @property
    def idle(self) -> bool:
        """Whether the broker has confirmed everything."""
        return not self._pending

    @property
    def pending(self) -> PendingUpdates:
        """Add to it, then call `wake`."""
        return self._pending

    def wake(self) -> None:
        """Something is pending."""
        self.confirmed.clear()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                try:
                    await self._send_next()
                except SendError as error:
                    log.info("broker %d was not told: %s", self.broker_id, error)
                    await self._clock.sleep(RETRY_S)
            self.confirmed.set()

    async def _send_next(self) -> None:
        pending = self._pending
        if pending.isr:
            await self._send_leader_and_isr(pending)
        elif pending.metadata or pending.deleted or pending.full or pending.brokers:
            await self._send_update_metadata(pending)
        else:
            await self._send_stop_replica(pending)

    async def _send_leader_and_isr(self, pending: PendingUpdates) -> None:
        chosen = _chunk(pending.isr)
        body = leader_and_isr(self._image(), chosen, self._sender(self.broker_epoch))
        for one in chosen:
            del pending.isr[one]
        try:
            response = await self._request(ApiKey.LEADER_AND_ISR, body)
        except SendError:
            pending.isr |= dict.fromkeys(chosen)
            raise
        if self._accepted(response.error_code):
            self._handlers.isr_errors(
                self.broker_id,
                {
                    (topic.topic_id, one.partition_index): ErrorCode.of(one.error_code)
                    for topic in response.topics
                    for one in topic.partition_errors
                    if one.error_code
                },
            )

    async def _send_update_metadata(self, pending: PendingUpdates) -> None:
        full, pending.full, pending.brokers = pending.full, False, False
        deleted, pending.deleted = pending.deleted, {}
        chosen = list(pending.metadata) if full else _chunk(pending.metadata)
        image = self._image()
        everything = [(t.topic_id, p.index) for t, p in image.partitions()] if full else chosen
        body = update_metadata(
            image, everything, self._sender(self.broker_epoch),
            deleted=deleted.values(), full=full,
        )  # fmt: skip
        for one in chosen:
            del pending.metadata[one]
        try:
            response = await self._request(ApiKey.UPDATE_METADATA, body)
        except SendError:
            pending.metadata |= dict.fromkeys(chosen)
            pending.deleted = deleted | pending.deleted
            pending.full = pending.full or full
            pending.brokers = True
            raise
        self._accepted(response.error_code)

    async def _send_stop_replica(self, pending: PendingUpdates) -> None:
        stops = {one: pending.stops[one] for one in _chunk(pending.stops)}
        body = stop_replica(stops, self._sender(self.broker_epoch))
        for one in stops:
            del pending.stops[one]
        try:
            response = await self._request(ApiKey.STOP_REPLICA, body)
        except SendError:
            pending.stops = stops | pending.stops
            raise
        whole = ErrorCode.of(response.error_code)
        results = dict.fromkeys(stops, whole)
        results |= {
            (one.topic_name, one.partition_index): whole or ErrorCode.of(one.error_code)
            for one in response.partition_errors
            if (one.topic_name, one.partition_index) in stops
        }
        self._accepted(response.error_code)
        self._handlers.stopped(self.broker_id, results)

    async def _request(self, key: ApiKey, body: object) -> Any:
        """The broker's response; an error that it may recover from raises, and the request is
        repeated."""
        response = await self._send(self.broker_id, key, body)
        if ErrorCode.of(response.error_code) in (ErrorCode.NONE, *_FENCED):
            return response
        raise SendError(f"{key.name}: {ErrorCode.of(response.error_code).name}")

    def _accepted(self, error_code: int) -> bool:
        """Whether the broker accepted the request. A restarted broker shows in its znode; one that
        knows a newer controller means that this one must check."""
        error = ErrorCode.of(error_code)
        if error is not ErrorCode.NONE:
            log.warning("broker %d refuses: %s", self.broker_id, error.name)
            self._handlers.fenced(self.broker_id, error)
        else:
            self._handlers.on_contact(self.broker_id, self.broker_epoch)
        return error is ErrorCode.NONE


def _chunk(pending: dict[Any, Any]) -> list[Any]:
    return list(pending)[:MAX_PARTITIONS_PER_REQUEST]


class BrokerRequestQueues:
    """All queues of one controller."""

    def __init__(self, create: Callable[[int, int], BrokerRequestQueue]) -> None:
        self._make = create
        self._queues: dict[int, BrokerRequestQueue] = {}

    def open(self, broker_id: int, broker_epoch: int) -> BrokerRequestQueue:
        """A new queue for a broker; what was pending before its restart is dropped."""
        self.close(broker_id)
        queue = self._queues[broker_id] = self._make(broker_id, broker_epoch)
        queue.start()
        return queue

    def close(self, broker_id: int) -> None:
        """The broker is gone."""
        queue = self._queues.pop(broker_id, None)
        if queue is not None:
            queue.stop()

    def close_all(self) -> None:
        """Only an active controller sends requests (C-RS-07)."""
        for broker_id in list(self._queues):
            self.close(broker_id)

    def get(self, broker_id: int) -> BrokerRequestQueue | None:
        """The queue of a live broker."""
        return self._queues.get(broker_id)

    def all(self) -> list[BrokerRequestQueue]:
        """All queues by broker id."""
        return [self._queues[broker_id] for broker_id in sorted(self._queues)]

    async def confirmed(self) -> None:
        """Waits until every broker has confirmed what was pending for it."""
        for queue in self.all():
            await queue.confirmed.wait()

    def send_pending(self) -> None:
        """Starts sending where something is pending."""
        for queue in self.all():
            if not queue.idle:
                queue.wake()
