"""A small topic of one partition, read from its beginning and then what is new of it.

In: the cluster's view, callers that want all that is there now. Out: its committed records, each
once. Never: an end of `refresh` before everything below the end that the caller found is read; a
transaction under way there is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerError
from bus.client.wire.offset_requests import EARLIEST, LATEST, one_list_offsets
from bus.client.wire.one_fetch import FetchFrom, fetched, one_fetch
from bus.client.wire.ports import ChannelClock
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import PartitionData
from bus.protocol.wire import RequestMessage, ResponseT
from bus.records.batch import RecordsError, iter_batches
from bus.records.read import read_records
from bus.records.record import Record
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.context import state_of_lost
from dr_mirror.copy.plan.committed import READ_COMMITTED, committed_runs
from dr_mirror.topics.states import MirrorState

TIMEOUT_MS = 10_000
FETCH_BYTES = 1024 * 1024
WAIT_S = 30.0
"""For transactions of the mirror that are under way in the topic; each lasts milliseconds."""
POLL_S = 0.01


class TopicUnavailable(Exception):
    """The topic cannot be read now."""

    def __init__(self, state: MirrorState, detail: str) -> None:
        super().__init__(detail)
        self.state = state
        self.detail = detail


class WholeTopicReader:
    """Invariant: all committed records below `_next` have been applied, in order."""

    def __init__(
        self,
        channels: ClusterChannels,
        clock: ChannelClock,
        name: str,
        apply: Callable[[Record], None],
        reset: Callable[[], None],
        *,
        isolation_level: int = READ_COMMITTED,
    ) -> None:
        """`reset`: the topic is another one by its id; what was applied means nothing any more.
        Another isolation level reads records of open and aborted transactions too."""
        self._isolation_level = isolation_level
        self._channels = channels
        self._clock = clock
        self.name = name
        self._apply = apply
        self._reset = reset
        self.leader = -1
        self._topic_id = b""
        self._next = -1
        self._lock = asyncio.Lock()
        self._begun = self._ended = 0

    @property
    def exists(self) -> bool:
        """Whether the cluster has it."""
        return bool(self._topic_id)

    def on_view(self, view: ClusterView) -> None:
        """The cluster as it answered."""
        topic = view.topics.get(self.name)
        self.leader = topic.partitions[0].leader if topic is not None else -1
        topic_id = topic.topic_id if topic is not None else b""
        if topic_id != self._topic_id:
            self._topic_id, self._next = topic_id, -1
            self._reset()

    async def refresh(self) -> None:
        """Apply all that is committed now. Raises TopicUnavailable.

        Callers that come while a read is under way share the one after it.
        """
        wanted = self._begun + 1
        async with self._lock:
            if self._ended >= wanted:
                return
            self._begun += 1
            number = self._begun
            await self._read(wait_s=WAIT_S)
            self._ended = number

    async def poll(self) -> None:
        """Apply what can be read now, up to the first transaction that is open. Raises
        TopicUnavailable."""
        async with self._lock:
            await self._read(wait_s=0.0)

    async def _read(self, *, wait_s: float) -> None:
        try:
            await self._read_to_end(wait_s)
        except PeerError as error:
            state = state_of_lost(error, MirrorState.TARGET_UNAVAILABLE)
            raise TopicUnavailable(state, f"{self.name}: {error}") from None

    async def _read_to_end(self, wait_s: float) -> None:
        end = await self._offset(LATEST)
        if self._next < 0:
            self._next = await self._offset(EARLIEST)
        deadline = self._clock.monotonic() + wait_s
        while self._next < end:
            data = await self._fetch()
            stable = data.last_stable_offset
            if self._isolation_level != READ_COMMITTED or stable < 0:
                stable = data.high_watermark
            if self._apply_all(data, stable):
                continue
            if stable >= end and not data.records:
                self._next = end  # nothing is left there: compaction
            elif not wait_s:
                return
            elif self._clock.monotonic() > deadline:
                raise TopicUnavailable(
                    MirrorState.TARGET_UNAVAILABLE,
                    f"{self.name}: a transaction is open at offset {stable}",
                )
            else:
                await self._clock.sleep(POLL_S)

    def _apply_all(self, data: PartitionData, stable: int) -> bool:
        """Whether the position advanced."""
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        try:
            runs = committed_runs(fetched(data.records), self._next, stable, aborted)
            for run in runs:
                for at, _ in iter_batches(run.data):
                    for record in read_records(run.data, at):
                        if record.offset >= self._next:
                            self._apply(record)
                self._next = run.end_offset
        except RecordsError as error:
            raise TopicUnavailable(
                MirrorState.TARGET_REFUSES, f"{self.name} at {self._next}: {error.detail}"
            ) from None
        return bool(runs)

    async def _fetch(self) -> PartitionData:
        request = one_fetch(
            (self._topic_id, 0), FetchFrom(self.name, self._next), max_bytes=FETCH_BYTES,
            isolation_level=self._isolation_level,
        )  # fmt: skip
        answer = await self._ask(ApiKey.FETCH, request)
        self._check(answer.error_code)
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._next = -1  # the log was cut: read it again
            self._reset()
        self._check(data.error_code)
        return data

    async def _offset(self, timestamp: int) -> int:
        request = one_list_offsets(TopicPartition(self.name, 0), timestamp)
        answer = await self._ask(ApiKey.LIST_OFFSETS, request)
        result = answer.topics[0].partitions[0]
        self._check(result.error_code)
        return result.offset

    async def _ask(self, api_key: int, request: RequestMessage[ResponseT]) -> ResponseT:
        if self.leader < 0:
            raise TopicUnavailable(MirrorState.TARGET_UNAVAILABLE, f"{self.name} has no leader")
        channel = self._channels.channel(self.leader, "questions", pipelined=True)
        return await channel.request(api_key, request, timeout_ms=TIMEOUT_MS)

    def _check(self, error_code: int) -> None:
        if error_code:
            detail = f"{self.name}: {ErrorCode.of(error_code).name}"
            raise TopicUnavailable(MirrorState.TARGET_UNAVAILABLE, detail)
