"""One connection to one broker of the source, and the partitions fetched over it.

In: partitions that want records. Out: runs of batches into their queues. Cores: `PartitionCopy`,
`ConsumerFetchSession`. Never: a fetch without memory for its answer, nor above the link's rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.fetch_session import PartitionKey
from bus.client.wire.one_fetch import fetched
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchResponse, PartitionData
from bus.records.batch import RecordsError
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext, state_of_lost
from dr_mirror.copy.plan.batches import BatchRun, SplitBatch, batch_run
from dr_mirror.copy.plan.committed import READ_COMMITTED, committed_runs
from dr_mirror.copy.plan.fetch_session import ConsumerFetchSession
from dr_mirror.copy.plan.pace import backoff_s
from dr_mirror.copy.plan.partition_copy import FetchedFrame, PartitionCopy
from dr_mirror.copy.plan.resume import SourceOffsets
from dr_mirror.topics.states import MirrorState

IDLE_WAIT_MS = 500
"""A fetch waits so long at the source for records."""
PAUSED_WAIT_MS = 10
"""The same while a partition waits for the target: it may want records again any moment."""
ANSWER_TIMEOUT_MS = 30_000
"""For the answer of a fetch beyond its wait: megabytes over a slow link."""


class SourceStream:
    """Invariant: the session wants exactly the partitions of `_copies` that want records."""

    def __init__(self, context: CopyContext, channel: PeerChannel) -> None:
        self._context = context
        self._channel = channel
        self._is_committed_only = context.settings.target_api == "produce"
        self._session = ConsumerFetchSession(
            context.settings.partition_fetch_bytes,
            READ_COMMITTED if self._is_committed_only else 0,
        )
        self._copies: dict[PartitionKey, PartitionCopy] = {}
        self._paused: set[PartitionKey] = set()
        self._wake = asyncio.Event()
        self._failures = 0
        self.answered_ms = -1
        context.memory_freed.append(self._wake)

    def update(self, copy: PartitionCopy) -> None:
        """Fetch it or do not, as it now wants."""
        key = copy.key
        if copy.wants_fetch:
            self._copies[key] = copy
            self._paused.discard(key)
            self._session.fetch(key, copy.fetch_from)
            self._wake.set()
        else:
            self._session.remove(key)
            if copy.copying:
                self._paused.add(key)
            else:
                self._paused.discard(key)

    def remove(self, copy: PartitionCopy) -> None:
        """Another stream has it from now on, or none."""
        self._copies.pop(copy.key, None)
        self._paused.discard(copy.key)
        self._session.remove(copy.key)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake.clear()
            if not self._session.partitions or not self._has_memory():
                await self._wake.wait()
                continue
            clock = self._context.clock
            wait_s = self._context.link.wait_s(clock.monotonic())
            if wait_s > 0:
                await clock.sleep(wait_s)
                continue
            try:
                await self._fetch()
                self._failures = 0
            except PeerError as error:
                await self._on_lost(error)

    def _has_memory(self) -> bool:
        budget = self._context.budget
        return budget.free() >= min(self._context.settings.partition_fetch_bytes, budget.limit)

    async def _fetch(self) -> None:
        context = self._context
        max_bytes = min(context.settings.fetch_bytes, context.budget.free())
        max_wait_ms = PAUSED_WAIT_MS if self._paused else IDLE_WAIT_MS
        context.budget.acquire(max_bytes)
        try:
            request = self._session.next_request(max_bytes=max_bytes, max_wait_ms=max_wait_ms)
            if request is None:  # nothing is wanted any more
                return
            answer = await self._channel.request(
                ApiKey.FETCH, request, timeout_ms=max_wait_ms + ANSWER_TIMEOUT_MS
            )
        finally:
            context.budget.release(max_bytes)
        if not self._session.handle_response(answer.error_code, answer.session_id):
            return
        self._on_answer(answer)

    async def _on_lost(self, error: PeerError) -> None:
        """The leader may have moved, or come back: what is queued stays."""
        self._session.reset()
        self._failures += 1
        state = state_of_lost(error, MirrorState.SOURCE_UNAVAILABLE)
        for copy in self._copies.values():
            if copy.copying:
                copy.note(state, str(error))
        self._context.refresh.set()
        clock = self._context.clock
        await clock.sleep(backoff_s(self._failures, clock.random.random()))

    def _on_answer(self, answer: FetchResponse) -> None:
        context = self._context
        self.answered_ms = now_ms()
        size = sum(len(p.records or b"") for t in answer.responses for p in t.partitions)
        context.budget.acquire(size)
        context.link.spend(size, context.clock.monotonic())
        frame = FetchedFrame(size, context.release)
        frame.hold()
        for topic in answer.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                copy = self._copies.get(key)
                if copy is not None and self._session.is_current(key):
                    self._on_partition(copy, data, frame)
        frame.drop()

    def _on_partition(
        self, copy: PartitionCopy, data: PartitionData, frame: FetchedFrame
    ) -> None:
        restart = self._context.flow.restart
        if data.error_code:
            restart(copy, *_state_of(data.error_code))
            return
        if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
            restart(copy, MirrorState.STARTING, "the source's leader has another history")
            return
        source = SourceOffsets(data.log_start_offset, data.high_watermark)
        try:
            runs = self._runs(copy, data)
        except SplitBatch as error:
            restart(copy, MirrorState.DIVERGED, error.detail)
            return
        except RecordsError as error:
            restart(copy, MirrorState.CORRUPT_SOURCE, error.detail)
            return
        at_ms = now_ms()
        for run in runs:
            copy.on_fetched(run, frame, source, at_ms)
        self.update(copy)
        self._context.flow.on_queued(copy)

    def _runs(self, copy: PartitionCopy, data: PartitionData) -> Sequence[BatchRun | None]:
        """At least one, which may be None. Raises RecordsError."""
        records = fetched(data.records)
        if not self._is_committed_only:
            return [batch_run(records, copy.position, data.high_watermark)]
        stable = data.last_stable_offset
        if stable < 0:  # a source without transactions
            stable = data.high_watermark
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        return committed_runs(records, copy.position, stable, aborted) or [None]


def _state_of(error_code: int) -> tuple[MirrorState, str]:
    code = ErrorCode.of(error_code)
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return MirrorState.STARTING, "the source does not hold the next offset"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return MirrorState.NOT_ALLOWED, "the source: TOPIC_AUTHORIZATION_FAILED"
    return MirrorState.SOURCE_UNAVAILABLE, f"the source: {code.name}"
