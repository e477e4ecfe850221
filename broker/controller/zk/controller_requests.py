"""Handles the controller's requests to this broker, one after the other.

In: LeaderAndIsr, UpdateMetadata and StopReplica requests; configurations and numbers of partitions
read from the znodes. Out: the image, each change of it to `publish`, responses. Core:
`request_decoder`. Never: a replica changed other than by the image's subscribers and
`LocalReplicas`; a request of a controller that was replaced.

When the session has ended the broker steps down from everything at once: another may have been
elected to lead the same partitions. It leads again only what a controller assigns under its new
registration.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk import znodes
from broker.controller.zk.configs import read_topic_configs
from broker.controller.zk.port import ZooKeeperError, ZooKeeperSession
from broker.controller.zk.request_decoder import (
    DecodedRequest,
    Fencing,
    incomplete_topics,
    records_from_leader_and_isr,
    records_from_update_metadata,
    step_down_records,
)
from broker.controller.zk.state_reader import read_partition_counts
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage, TopicImage
from bus.errors import ErrorCode
from bus.protocol.generated.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from bus.protocol.generated.metadata_records import RemoveTopicRecord
from bus.protocol.generated.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from bus.protocol.generated.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

log = logging.getLogger("broker.controller.zk")

MAX_WAITING = 64
"""Requests that wait for their turn. Each controller has one in flight to us at a time, so more
than two or three means that a sender is not a controller."""

Publish = Callable[[Changes], None]


@dataclass(frozen=True, slots=True)
class LocalReplicas:
    """What a controller's request changes on this broker beside its image.

    `delete` removes a replica's log, NONE also if there is none; `has_failed` says whether a
    replica that should be here is missing because its directory failed.
    """

    delete: Callable[[str, int], ErrorCode]
    has_failed: Callable[[str, int], bool]


class ControllerRequestHandler:
    """This broker's side of the controller's requests.

    Invariant: requests are processed in arrival order, none before `open`.
    """

    def __init__(
        self,
        node_id: int,
        session: ZooKeeperSession,
        clock: Clock,
        publish: Publish,
        on_controller: Callable[[int, int], None],
    ) -> None:
        self._node_id = node_id
        self._session = session
        self._clock = clock
        self._publish = publish
        self._on_controller = on_controller
        self._local_replicas: LocalReplicas | None = None
        self.image = MetadataImage()
        self.fencing = Fencing()
        self._waiting: deque[tuple[Any, Callable[[object], None]]] = deque()
        self._wake = asyncio.Event()
        self._task: TaskHandle | None = None
        self.informed = asyncio.Event()

    # -- life -----------------------------------------------------------------------------

    def open(self, local: LocalReplicas) -> None:
        """The replicas are available: starts processing requests."""
        self._local_replicas = local
        self._task = self._clock.spawn(self._run(), name="controller-requests")

    def close(self) -> None:
        """Stops processing requests."""
        if self._task is not None:
            self._task.cancel()

    def on_registered(self, broker_epoch: int) -> None:
        """A new registration; requests for earlier ones are refused."""
        self.fencing.broker_epoch = broker_epoch
        self.informed.clear()

    def step_down(self) -> None:
        """The session has ended: lead nothing and refuse all requests until registered again."""
        self.fencing.end_registration()
        self.informed.clear()
        self.replay(step_down_records(self.image, self.image.topics.values(), self._node_id))

    def replay(self, records: Iterable[object]) -> None:
        """Changes the image and publishes the change."""
        applied = list(records)
        if not applied:
            return
        delta = MetadataDelta(self.image)
        for record in applied:
            delta.replay(record)
        changes = delta.apply(self.image.offset + len(applied), self.fencing.controller_epoch)
        self.image = changes.image
        self._publish(changes)

    # -- requests -----------------------------------------------------------------------

    def handle(self, request: Any, reply: Callable[[object], None]) -> None:
        """Processes a request of keys 4 to 6 in its turn, then responds."""
        if len(self._waiting) >= MAX_WAITING:
            reply(_error_response(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
            return
        self._waiting.append((request, reply))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                request, reply = self._waiting.popleft()
                try:
                    reply(await self._process(request))
                except Exception:
                    log.exception("a request of the controller failed")
                    reply(_error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR))

    async def _process(self, request: Any) -> object:
        error = self.fencing.check(request)
        if error is not ErrorCode.NONE:
            log.warning("%s of controller %d epoch %d refused: %s", type(request).__name__,
                        request.controller_id, request.controller_epoch, error.name)
            return _error_response(request, error)
        self._on_controller(request.controller_id, request.controller_epoch)
        try:
            return await _HANDLERS[type(request)](self, request)
        except ZooKeeperError as error:  # the controller sends the request again
            log.warning("%s is put off: ZooKeeper does not say how many partitions its topics have:"
                        " %s", type(request).__name__, error)  # fmt: skip
            return _error_response(request, ErrorCode.BROKER_NOT_AVAILABLE)

    async def _leader_and_isr(self, request: LeaderAndIsrRequest) -> object:
        await self._read_configs(topic.topic_name for topic in request.topic_states)
        counts = await self._read_counts(request)
        decoded = records_from_leader_and_isr(self.image, request, self._node_id, counts)
        self.replay(decoded.records)
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index,
                            error_code=self._error_of(decoded, topic, state.partition_index),
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
        )

    def _error_of(
        self, decoded: DecodedRequest, topic: LeaderAndIsrTopicState, index: int
    ) -> ErrorCode:
        error = decoded.errors.get((topic.topic_id, index), ErrorCode.NONE)
        if error is ErrorCode.NONE and self._replicas().has_failed(topic.topic_name, index):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return error

    async def _update_metadata(self, request: UpdateMetadataRequest) -> object:
        await self._read_configs(topic.topic_name for topic in request.topic_states)
        counts = await self._read_counts(request)
        decoded = records_from_update_metadata(self.image, request, counts)
        self.replay(decoded.records)
        self.remove_topics(decoded.removed_topics)
        self.informed.set()
        return UpdateMetadataResponse()

    async def _stop_replica(self, request: StopReplicaRequest) -> object:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=self._stop(topic.topic_name, state),
                    )
                )
        return StopReplicaResponse(partition_errors=errors)

    def _stop(self, name: str, state: StopReplicaPartitionState) -> ErrorCode:
        topic = self.image.topics.get(name)
        index = state.partition_index
        if topic is not None and index < len(topic.partitions):
            held = topic.partitions[index]
            if 0 <= state.leader_epoch < held.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if self._node_id in held.replicas:
                self.replay(step_down_records(self.image, (_only(topic, index),), self._node_id))
        if not state.delete_partition:
            return ErrorCode.NONE
        return self._replicas().delete(name, index)

    def remove_topics(self, topics: Iterable[TopicImage]) -> None:
        """Topics leave the image, their logs stay: only StopReplica deletes what is on disk, so
        that a controller which was misled by an emptied ensemble destroys nothing."""
        gone = [topic for topic in topics if topic.topic_id in self.image.topic_names]
        if not gone:
            return
        self.replay(step_down_records(self.image, gone, self._node_id))
        delta = MetadataDelta(self.image)
        for topic in gone:
            delta.replay(RemoveTopicRecord(topic_id=topic.topic_id))
        changes = delta.apply(self.image.offset + 1, self.fencing.controller_epoch)
        self.image = changes.image
        self._publish(replace(changes, deleted_topics=()))

    async def _read_configs(self, names: Iterable[str]) -> None:
        """A topic's configuration is known before its replica is made. The controller's request may
        overtake ZooKeeper: without `sync` a server that is behind says that there is none, and no
        notification tells of it later."""
        unknown = [name for name in names if name not in self.image.topics]
        if not unknown:
            return
        try:
            await self._session.sync(znodes.CONFIG_TOPICS)
            self.replay(await read_topic_configs(self._session, unknown, self.image))
        except (ZooKeeperError, znodes.ZnodeError) as error:
            # All configurations are read again when the connection is back.
            log.warning("configurations of %d new topics are not known yet: %s",
                        len(unknown), error)

    async def _read_counts(
        self, request: LeaderAndIsrRequest | UpdateMetadataRequest
    ) -> dict[bytes, int]:
        """Partitions of the topics of which the request may name some only: LeaderAndIsr has this
        broker's own, and with their number a group would be looked for in another partition than
        everywhere else, under a coordinator of its own. Kafka reads it from the znode, too."""
        names = incomplete_topics(self.image, request)
        if not names:
            return {}
        await self._session.sync(znodes.TOPICS)
        return await read_partition_counts(self._session, names)

    def _replicas(self) -> LocalReplicas:
        if self._local_replicas is None:
            raise RuntimeError("requests are carried out once the components are started")
        return self._local_replicas


def _only(topic: TopicImage, index: int) -> TopicImage:
    return replace(topic, partitions=(topic.partitions[index],))


def _error_response(request: Any, error: ErrorCode) -> object:
    return _RESPONSES[type(request)](error_code=error)


_RESPONSES: dict[type, Callable[..., object]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    StopReplicaRequest: StopReplicaResponse,
}

_HANDLERS: dict[type, Callable[[ControllerRequestHandler, Any], Awaitable[object]]] = {
    LeaderAndIsrRequest: ControllerRequestHandler._leader_and_isr,
    UpdateMetadataRequest: ControllerRequestHandler._update_metadata,
    StopReplicaRequest: ControllerRequestHandler._stop_replica,
}
