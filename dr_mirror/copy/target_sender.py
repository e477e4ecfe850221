"""One connection to one broker of the target, and the appends that go over it.

In: partitions with something queued. Out: their acknowledgements. Core: `PartitionCopy`. Never: two
appends of one partition at once; what arrives meanwhile goes together into the next one.
"""

from __future__ import annotations

import asyncio

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerChannel, PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    PartitionMirrorAppend,
    PartitionMirrorAppendResult,
    TopicMirrorAppend,
)
from bus.runtime.tasks import spawn
from dr_mirror.copy.context import CopyContext, state_of_lost
from dr_mirror.copy.plan.append_errors import state_of
from dr_mirror.copy.plan.partition_copy import PartitionAppend, PartitionCopy
from dr_mirror.topics.states import MirrorState

MAX_REQUESTS = 8
"""Appends under way on one connection; each waits for all in-sync replicas of the target."""
APPEND_TIMEOUT_MS = 30_000
"""For the in-sync replicas; the target takes a replica out of sync after about as long."""

Appends = list[tuple[PartitionCopy, PartitionAppend]]


class TargetSender:
    """Invariant: `_ready` holds partitions that may append and are in no request."""

    def __init__(self, context: CopyContext, channel: PeerChannel) -> None:
        self._context = context
        self._channel = channel
        self._ready: dict[TopicPartition, PartitionCopy] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._is_scheduled = False

    def update(self, copy: PartitionCopy) -> None:
        """Append what it has queued, soon."""
        if copy.can_append:
            self._ready[copy.partition] = copy
            self._schedule()

    def remove(self, copy: PartitionCopy) -> None:
        """Another broker leads it now."""
        self._ready.pop(copy.partition, None)

    def close(self) -> None:
        """End the requests under way."""
        for task in self._requests:
            task.cancel()

    def _schedule(self) -> None:
        """Once per iteration of the loop: the partitions of one fetch go in one request."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_ready)

    def _send_ready(self) -> None:
        self._is_scheduled = False
        while self._ready and len(self._requests) < MAX_REQUESTS:
            appends = self._next_appends()
            if not appends:
                return
            task = spawn(self._send(appends), name="append to the target")
            self._requests.add(task)
            task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._send_ready()

    def _next_appends(self) -> Appends:
        room = self._context.settings.append_bytes
        appends: Appends = []
        while self._ready and room > 0:
            partition, copy = next(iter(self._ready.items()))
            del self._ready[partition]
            if copy.can_append:
                append = copy.next_append(room)
                appends.append((copy, append))
                room -= append.size
        return appends

    async def _send(self, appends: Appends) -> None:
        try:
            answer = await self._channel.request(
                ApiKey.MIRROR_APPEND, self._request(appends),
                timeout_ms=APPEND_TIMEOUT_MS + APPEND_TIMEOUT_MS // 2,
            )  # fmt: skip
        except PeerError as error:
            state = state_of_lost(error, MirrorState.TARGET_UNAVAILABLE)
            for copy, append in appends:
                self._fail(copy, append, state, str(error))
            return
        results = {
            TopicPartition(topic.name, one.index): one
            for topic in answer.topics
            for one in topic.partitions
        }
        for copy, append in appends:
            place = self._context.names.partition_at_target(copy.partition)
            self._on_result(copy, append, results.get(place))

    def _request(self, appends: Appends) -> MirrorAppendRequest:
        clusters = self._context.clusters
        topics: dict[str, TopicMirrorAppend] = {}
        for copy, append in appends:
            name, index = self._context.names.partition_at_target(copy.partition)
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicMirrorAppend(name, [])
            topic.partitions.append(
                PartitionMirrorAppend(
                    index, append.target_epoch, append.base_offset, append.source_log_start,
                    append.joined,
                )
            )  # fmt: skip
        return MirrorAppendRequest(
            clusters.source_cluster_id, clusters.generation, APPEND_TIMEOUT_MS,
            list(topics.values()),
        )  # fmt: skip

    def _on_result(
        self,
        copy: PartitionCopy,
        append: PartitionAppend,
        result: PartitionMirrorAppendResult | None,
    ) -> None:
        if result is None:
            self._fail(copy, append, MirrorState.TARGET_REFUSES, "the answer lacks the partition")
        elif result.error_code:
            state, detail = state_of(ErrorCode.of(result.error_code), result.error_message or "")
            self._fail(copy, append, state, detail)
        elif copy.is_current(append):
            copy.on_appended(append, result.log_start_offset)
            self._context.flow.on_room(copy)
            if copy.has_queued:
                self.update(copy)

    def _fail(
        self, copy: PartitionCopy, append: PartitionAppend, state: MirrorState, detail: str
    ) -> None:
        if copy.is_current(append):
            self._context.flow.restart(copy, state, detail)
