"""One fetcher task: copies partitions from one leader broker, fetch after fetch, without pause.

Core: `FetchSessionHandler` (what to ask), `offset_reset` (where to truncate). In: partitions to
copy. Out: their logs grow as the leader's. Never: leadership; the manager removes a partition whose
leader changed and adds it to another fetcher. The next fetch follows an append at once, because it
raises the leader's high watermark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait
from broker.log.errors import LogError
from broker.log.segments import PendingTruncation
from broker.log.validation import AppendInfo
from broker.peer.log_limiter import LogRateLimiter
from broker.replica.fetch.offset_reset import leader_offset, truncation_offset
from broker.replica.fetch.session_handler import FetchLimits, FetchSessionHandler
from broker.replica.partition import Partition
from broker.replica.port import Channel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.fetch_session import PartitionKey
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchResponse, PartitionData
from bus.records.batch import Buffer

log = logging.getLogger("broker.replica")

FIRST_BACKOFF_MS = 25
"""The first delay after an error, doubled up to replica.fetch.backoff.ms: right after an election a
leader may not know of it yet, and every millisecond of the first delay is one without acks."""

STORE_WAIT_S = 0.05
"""How long the next request waits for disks that still store or truncate what the last response
changed. After that it is sent without those partitions: a stalled disk must not delay the
others."""

EARLIEST_LOCAL, LATEST = -4, -1

_UNEVENTFUL = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Leader or follower does not have the newest metadata yet."""


class FetchHost(Protocol):
    """What a fetcher needs of its replica manager."""

    def broker_epoch(self) -> int: ...

    def on_replicated(self, partition: Partition, info: AppendInfo, /) -> int:
        """Count what was copied; returns the delay that a throttle imposes, in milliseconds."""

    def on_truncated(
        self, partition: Partition, before: int, truncation: PendingTruncation, /
    ) -> TaskHandle:
        """The log was truncated; it ended at ``before``. Returns the task that makes the truncation
        durable; nothing may be appended before."""

    def flush_soon(self, partition: Partition, /) -> TaskHandle:
        """flush.messages demands a flush before the leader learns that we have the records. Returns
        the task that flushes."""

    def on_log_error(self, partition: Partition, error: LogError, /) -> None:
        """The log refused what the leader sent."""


@dataclass(slots=True)
class PartitionFetchState:
    """One partition being copied. ``requested``: named in a request since it was added here.
    ``delays``: how many reasons there are not to fetch it (an error, a throttle, its disk)."""

    partition: Partition
    requested: bool = False
    failures: int = 0
    delays: int = 0
    lag: int = 0


class Fetcher:
    """Invariant: the session contains the partitions that are not delayed."""

    def __init__(
        self,
        name: str,
        broker_id: int,
        channel: Channel,
        clock: Clock,
        host: FetchHost,
        limits: FetchLimits,
        *,
        timeout_ms: int,
        backoff_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.partitions: dict[PartitionKey, PartitionFetchState] = {}
        self._channel = channel
        self._clock = clock
        self._host = host
        self._session = FetchSessionHandler(broker_id, limits)
        self._broker_id = broker_id
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._log_limiter = LogRateLimiter()
        self._woken = asyncio.Event()
        self._in_flight = False
        self._stopped = False
        self._task: TaskHandle | None = None
        self._unstored: list[tuple[PartitionKey, PartitionFetchState, TaskHandle]] = []
        self._waiting: set[TaskHandle] = set()

    # --- what to copy ----------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Copy a partition from now on, from its log's end."""
        key = (partition.topic_id, partition.index)
        self.partitions[key] = PartitionFetchState(partition)
        self._session.add(key, partition)
        self._wake()

    def remove(self, partition: Partition) -> None:
        """Stop copying it; a response that is under way is ignored for it."""
        key = (partition.topic_id, partition.index)
        if self.partitions.pop(key, None) is not None:
            self._session.remove(key)

    def _wake(self) -> None:
        """Send the next request at once. A request that waits at the leader would delay a new
        partition, and its producers, up to replica.fetch.wait.max.ms."""
        self._woken.set()
        if self._in_flight:
            self._in_flight = False
            self._channel.disconnect()

    # --- start and stop --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._task = self._clock.spawn(self.run(), name=self.name)

    async def stop(self) -> None:
        """End."""
        self._stopped = True
        self._channel.close()
        task, self._task = self._task, None
        waiting, self._waiting = self._waiting, set()
        await cancel_and_wait([*waiting] if task is None else [task, *waiting])

    async def run(self) -> None:
        """Send a fetch, process the response, send the next."""
        while not self._stopped:
            self._woken.clear()
            planned = self._session.next_request(self._host.broker_epoch())
            if planned is None:
                await self._woken.wait()
                continue
            request, named = planned
            for key in named:
                self.partitions[key].requested = True
            self._in_flight = True
            try:
                response = await self._channel.request(
                    ApiKey.FETCH, request, timeout_ms=self._timeout_ms
                )
            except PeerError as error:
                await self._on_request_failed(error)
                continue
            finally:
                self._in_flight = False
            self._log_limiter.ended(self._clock.monotonic())
            await self._process_response(response)

    async def _on_request_failed(self, error: PeerError) -> None:
        self._session.reset()
        if self._woken.is_set() and error.kind is PeerErrorKind.DISCONNECTED:
            return  # `_wake` closed the connection
        if self._log_limiter.should_log(self._clock.monotonic()):
            log.info("%s: no answer: %s", self.name, error)
        await self._clock.sleep(min(FIRST_BACKOFF_MS, self._backoff_ms()) / 1000)

    # --- responses -------------------------------------------------------------------------------

    async def _process_response(self, response: FetchResponse) -> None:
        if not self._session.handle_response(response.error_code, response.session_id):
            log.info("%s: session over: %s", self.name, ErrorCode.of(response.error_code).name)
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                await self._clock.sleep(self._backoff_ms() / 1000)
            return
        now_ms = self._clock.now_ms()
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                state = self.partitions.get(key)
                if state is None or not state.requested or state.delays:
                    continue
                try:
                    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        await self._reset_offset(key, state)
                    else:
                        self._process_partition(key, state, data, now_ms)
                except Exception:
                    # Caused by what the leader sent, which it would send again after a restart. The
                    # partition is delayed, the others continue (Kafka: markPartitionFailed).
                    log.exception("%s: %s-%d", self.name, topic.topic, data.partition_index)
                    self._on_error(key, state, ErrorCode.UNKNOWN_SERVER_ERROR)
        if self._unstored:
            await self._wait_until_stored()

    async def _wait_until_stored(self) -> None:
        """Wait for the disk: our next request tells the leader what we have stored."""
        storing, self._unstored = self._unstored, []
        done, _ = await asyncio.wait(
            [task for _, _, task in storing],  # type: ignore[type-var]
            timeout=STORE_WAIT_S,
        )
        for key, state, task in storing:
            if task not in done and self.partitions.get(key) is state:
                self._pause(key, state)
                waiting = self._clock.spawn(
                    self._unpause_when_stored(key, state, task), name=f"{self.name}-disk"
                )
                self._waiting = {one for one in self._waiting if not one.done()} | {waiting}

    async def _unpause_when_stored(
        self, key: PartitionKey, state: PartitionFetchState, task: TaskHandle
    ) -> None:
        await asyncio.wait([task])  # type: ignore[type-var]
        self._unpause(key, state)

    def _process_partition(
        self, key: PartitionKey, state: PartitionFetchState, data: PartitionData, now_ms: int
    ) -> None:
        partition = state.partition
        if data.error_code:
            self._on_error(key, state, ErrorCode.of(data.error_code))
            return
        try:
            if data.diverging_epoch is not None:
                ending = data.diverging_epoch
                self._truncate(
                    key, state, truncation_offset(partition.log, ending.epoch, ending.end_offset)
                )
                return
            start = partition.log.log_start_offset
            info = partition.append_as_follower(
                _bytes_of(data), now_ms, data.high_watermark, data.log_start_offset
            )
        except LogError as error:
            self._host.on_log_error(partition, error)
            self._on_error(key, state, error.code)
            return
        state.failures = 0
        state.lag = max(data.high_watermark - partition.log.end_offset, 0)
        if info is not None:
            self._session.mark_changed(key)
            if partition.log.needs_flush:
                self._unstored.append((key, state, self._host.flush_soon(partition)))
            rest_ms = self._host.on_replicated(partition, info)
            if rest_ms:
                self._delay(key, state, rest_ms)
        elif partition.log.log_start_offset != start:
            self._session.mark_changed(key)

    def _on_error(self, key: PartitionKey, state: PartitionFetchState, error: ErrorCode) -> None:
        rest_ms = min(FIRST_BACKOFF_MS << min(state.failures, 10), self._backoff_ms())
        state.failures += 1
        level = logging.DEBUG if error in _UNEVENTFUL else logging.WARNING
        partition = state.partition
        log.log(
            level, "%s: %s-%d: %s, again in %d ms",
            self.name, partition.topic, partition.index, error.name, rest_ms,
        )  # fmt: skip
        self._delay(key, state, rest_ms)

    def _delay(self, key: PartitionKey, state: PartitionFetchState, rest_ms: int) -> None:
        self._pause(key, state)
        self._clock.call_later(rest_ms / 1000, lambda: self._unpause(key, state))

    def _pause(self, key: PartitionKey, state: PartitionFetchState) -> None:
        state.delays += 1
        self._session.remove(key)

    def _unpause(self, key: PartitionKey, state: PartitionFetchState) -> None:
        state.delays -= 1
        if self.partitions.get(key) is state and not state.delays:
            state.requested = False
            self._session.add(key, state.partition)
            self._wake()

    # --- diverging logs --------------------------------------------------------------------------

    def _truncate(self, key: PartitionKey, state: PartitionFetchState, offset: int) -> None:
        log = state.partition.log
        before = log.end_offset
        self._on_truncate(key, state, before, log.begin_truncate_to(offset, self._clock.now_ms()))

    def _on_truncate(
        self,
        key: PartitionKey,
        state: PartitionFetchState,
        before: int,
        truncation: PendingTruncation,
    ) -> None:
        self._unstored.append(
            (key, state, self._host.on_truncated(state.partition, before, truncation))
        )
        self._session.mark_changed(key)

    async def _reset_offset(self, key: PartitionKey, state: PartitionFetchState) -> None:
        """Our end is outside the leader's log: an unclean election truncated it, or the records
        that follow ours have been deleted there."""
        partition = state.partition
        try:
            end = await self._leader_offset(partition, LATEST)
            start = await self._leader_offset(partition, EARLIEST_LOCAL)
        except (PeerError, LogError) as error:
            log.info("%s: %s-%d: %s", self.name, partition.topic, partition.index, error)
            self._session.reset()
            self._on_error(key, state, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        if self.partitions.get(key) is not state:
            return  # removed or added again meanwhile
        try:
            self._truncate_to_leader(key, state, start, end)
        except LogError as error:
            self._host.on_log_error(partition, error)
            self._on_error(key, state, error.code)

    def _truncate_to_leader(
        self, key: PartitionKey, state: PartitionFetchState, start: int, end: int
    ) -> None:
        own = state.partition.log
        if end < own.end_offset:
            self._truncate(key, state, end)
        elif start > own.end_offset:
            before = own.end_offset
            truncation = own.begin_truncate_fully(start, self._clock.now_ms())
            log.warning("%s: copied again from offset %d on", own.directory, start)
            self._on_truncate(key, state, before, truncation)
        else:
            self._on_error(key, state, ErrorCode.OFFSET_OUT_OF_RANGE)

    async def _leader_offset(self, partition: Partition, timestamp: int) -> int:
        return await leader_offset(
            self._channel, partition, self._broker_id, timestamp, self._timeout_ms
        )


def _bytes_of(data: PartitionData) -> Buffer:
    """The batches of a response; the decoder returns them in one piece."""
    records = data.records
    return b"".join(records) if isinstance(records, list) else records or b""
