"""One follower task: copies partitions from one leader broker, fetch after fetch, no pause.

Core: `FetchPlan` (what to ask), `truncation` (where to cut). In: partitions to copy. Out: their
logs grow as the leader's. Never: leadership; a partition that moved is taken away and given anew
by the manager. An append is followed by the next fetch at once, because that is what lifts the
leader's high watermark.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import end
from broker.log.cut import Cut
from broker.log.errors import LogError
from broker.log.records_in import AppendInfo
from broker.peer.errors import PeerError, PeerErrorKind
from broker.peer.silence import Silence
from broker.replica.fetch_plan import FetchLimits, FetchPlan, Key
from broker.replica.partition import Partition
from broker.replica.port import Channel
from broker.replica.reset import leader_offset
from broker.replica.truncation import cut_at
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.fetch import FetchResponse, PartitionData
from bus.records.batch import Buffer

log = logging.getLogger("broker.replica")

FIRST_BACKOFF_MS = 25
"""The first rest after an error, doubled up to replica.fetch.backoff.ms: right after an election a
leader may not have heard of it yet, and every millisecond of the first rest is one without acks."""

PATIENCE_S = 0.05
"""The next request waits so long for disks that still store what the last answer brought or cut.
After that it goes without those partitions: a stalled disk must not hold up the others."""

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
"""One of both has not heard of the newest metadata yet."""


class FetchHost(Protocol):
    """What a fetcher needs of its replica manager."""

    def broker_epoch(self) -> int: ...

    def copied(self, partition: Partition, info: AppendInfo, /) -> int:
        """Count what came; how many milliseconds a throttle makes the partition rest."""

    def truncated(self, partition: Partition, before: int, cut: Cut, /) -> TaskHandle:
        """The log was cut; it ended at ``before``. The task that makes the cut durable, before
        which nothing may be appended."""

    def flush_soon(self, partition: Partition, /) -> TaskHandle:
        """flush.messages wants what came flushed before the leader hears that we have it. The task
        that does it."""

    def failed(self, partition: Partition, error: LogError, /) -> None:
        """The log did not take what came."""


@dataclass(slots=True)
class Copy:
    """One partition being copied. ``asked``: named in a request since it was given to us.
    ``rests``: how many reasons there are not to ask for it (an error, a throttle, its disk)."""

    partition: Partition
    asked: bool = False
    failures: int = 0
    rests: int = 0
    lag: int = 0


class Fetcher:
    """Invariant: what the plan wants are the copies that do not rest."""

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
        self.copies: dict[Key, Copy] = {}
        self._channel = channel
        self._clock = clock
        self._host = host
        self._plan = FetchPlan(broker_id, limits)
        self._broker_id = broker_id
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._silence = Silence()
        self._woken = asyncio.Event()
        self._in_flight = False
        self._stopped = False
        self._task: TaskHandle | None = None
        self._storing: list[tuple[Key, Copy, TaskHandle]] = []
        self._waiting: set[TaskHandle] = set()

    # --- what to copy ----------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        """Copy a partition from now on, from its log's end."""
        key = (partition.topic_id, partition.index)
        self.copies[key] = Copy(partition)
        self._plan.want(key, partition)
        self._wake()

    def remove(self, partition: Partition) -> None:
        """Copy it no more; what is under way for it is not used."""
        key = (partition.topic_id, partition.index)
        if self.copies.pop(key, None) is not None:
            self._plan.leave_out(key)

    def _wake(self) -> None:
        """Ask at once. A request that waits at the leader would keep a new partition, and the
        producers that wait for it, up to replica.fetch.wait.max.ms."""
        self._woken.set()
        if self._in_flight:
            self._in_flight = False
            self._channel.disconnect()

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._task = self._clock.spawn(self.run(), name=self.name)

    async def stop(self) -> None:
        """End."""
        self._stopped = True
        self._channel.close()
        task, self._task = self._task, None
        waiting, self._waiting = self._waiting, set()
        await end([*waiting] if task is None else [task, *waiting])

    async def run(self) -> None:
        """Ask, take, ask again."""
        while not self._stopped:
            self._woken.clear()
            planned = self._plan.next_request(self._host.broker_epoch())
            if planned is None:
                await self._woken.wait()
                continue
            request, named = planned
            for key in named:
                self.copies[key].asked = True
            self._in_flight = True
            try:
                response = await self._channel.request(
                    ApiKey.FETCH, request, timeout_ms=self._timeout_ms
                )
            except PeerError as error:
                await self._on_no_answer(error)
                continue
            finally:
                self._in_flight = False
            self._silence.ended(self._clock.monotonic())
            await self._take(response)

    async def _on_no_answer(self, error: PeerError) -> None:
        self._plan.begin_anew()
        if self._woken.is_set() and error.kind is PeerErrorKind.DISCONNECTED:
            return  # we hung up ourselves
        if self._silence.worth_saying(self._clock.monotonic()):
            log.info("%s: no answer: %s", self.name, error)
        await self._clock.sleep(min(FIRST_BACKOFF_MS, self._backoff_ms()) / 1000)

    # --- answers ---------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> None:
        if not self._plan.on_answer(response.error_code, response.session_id):
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
                copy = self.copies.get(key)
                if copy is None or not copy.asked or copy.rests:
                    continue
                try:
                    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        await self._start_again(key, copy)
                    else:
                        self._take_partition(key, copy, data, now_ms)
                except Exception:
                    # What the leader sent: it would send it again after a restart. The partition
                    # rests, the others go on (Kafka: markPartitionFailed).
                    log.exception("%s: %s-%d", self.name, topic.topic, data.partition_index)
                    self._on_error(key, copy, ErrorCode.UNKNOWN_SERVER_ERROR)
        if self._storing:
            await self._until_stored()

    async def _until_stored(self) -> None:
        """Stored before said: our next request tells the leader what we have."""
        storing, self._storing = self._storing, []
        done, _ = await asyncio.wait(
            [task for _, _, task in storing],  # type: ignore[type-var]
            timeout=PATIENCE_S,
        )
        for key, copy, task in storing:
            if task not in done and self.copies.get(key) is copy:
                self._leave_out(key, copy)
                waiting = self._clock.spawn(self._resume(key, copy, task), name=f"{self.name}-disk")
                self._waiting = {one for one in self._waiting if not one.done()} | {waiting}

    async def _resume(self, key: Key, copy: Copy, task: TaskHandle) -> None:
        await asyncio.wait([task])  # type: ignore[type-var]
        self._go_on(key, copy)

    def _take_partition(self, key: Key, copy: Copy, data: PartitionData, now_ms: int) -> None:
        partition = copy.partition
        if data.error_code:
            self._on_error(key, copy, ErrorCode.of(data.error_code))
            return
        try:
            if data.diverging_epoch is not None:
                ending = data.diverging_epoch
                self._cut(key, copy, cut_at(partition.log, ending.epoch, ending.end_offset))
                return
            start = partition.log.log_start_offset
            info = partition.append_as_follower(
                _bytes_of(data), now_ms, data.high_watermark, data.log_start_offset
            )
        except LogError as error:
            self._host.failed(partition, error)
            self._on_error(key, copy, error.code)
            return
        copy.failures = 0
        copy.lag = max(data.high_watermark - partition.log.end_offset, 0)
        if info is not None:
            self._plan.moved(key)
            if partition.log.needs_flush:
                self._storing.append((key, copy, self._host.flush_soon(partition)))
            rest_ms = self._host.copied(partition, info)
            if rest_ms:
                self._rest(key, copy, rest_ms)
        elif partition.log.log_start_offset != start:
            self._plan.moved(key)

    def _on_error(self, key: Key, copy: Copy, error: ErrorCode) -> None:
        rest_ms = min(FIRST_BACKOFF_MS << min(copy.failures, 10), self._backoff_ms())
        copy.failures += 1
        level = logging.DEBUG if error in _UNEVENTFUL else logging.WARNING
        partition = copy.partition
        log.log(
            level, "%s: %s-%d: %s, again in %d ms",
            self.name, partition.topic, partition.index, error.name, rest_ms,
        )  # fmt: skip
        self._rest(key, copy, rest_ms)

    def _rest(self, key: Key, copy: Copy, rest_ms: int) -> None:
        self._leave_out(key, copy)
        self._clock.call_later(rest_ms / 1000, lambda: self._go_on(key, copy))

    def _leave_out(self, key: Key, copy: Copy) -> None:
        copy.rests += 1
        self._plan.leave_out(key)

    def _go_on(self, key: Key, copy: Copy) -> None:
        copy.rests -= 1
        if self.copies.get(key) is copy and not copy.rests:
            copy.asked = False
            self._plan.want(key, copy.partition)
            self._wake()

    # --- another history -------------------------------------------------------------------------

    def _cut(self, key: Key, copy: Copy, offset: int) -> None:
        log = copy.partition.log
        before = log.end_offset
        self._on_cut(key, copy, before, log.cut_to(offset, self._clock.now_ms()))

    def _on_cut(self, key: Key, copy: Copy, before: int, cut: Cut) -> None:
        self._storing.append((key, copy, self._host.truncated(copy.partition, before, cut)))
        self._plan.moved(key)

    async def _start_again(self, key: Key, copy: Copy) -> None:
        """Our end is outside the leader's log: it was cut in an unclean election, or what comes
        next for us has been deleted there."""
        partition = copy.partition
        try:
            end = await self._leader_offset(partition, LATEST)
            start = await self._leader_offset(partition, EARLIEST_LOCAL)
        except (PeerError, LogError) as error:
            log.info("%s: %s-%d: %s", self.name, partition.topic, partition.index, error)
            self._plan.begin_anew()
            self._on_error(key, copy, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        if self.copies.get(key) is not copy:
            return  # moved on while we asked
        try:
            self._cut_to_leaders(key, copy, start, end)
        except LogError as error:
            self._host.failed(partition, error)
            self._on_error(key, copy, error.code)

    def _cut_to_leaders(self, key: Key, copy: Copy, start: int, end: int) -> None:
        own = copy.partition.log
        if end < own.end_offset:
            self._cut(key, copy, end)
        elif start > own.end_offset:
            before = own.end_offset
            cut = own.cut_fully(start, self._clock.now_ms())
            log.warning("%s: copied anew from offset %d on", own.directory, start)
            self._on_cut(key, copy, before, cut)
        else:
            self._on_error(key, copy, ErrorCode.OFFSET_OUT_OF_RANGE)

    async def _leader_offset(self, partition: Partition, timestamp: int) -> int:
        return await leader_offset(
            self._channel, partition, self._broker_id, timestamp, self._timeout_ms
        )


def _bytes_of(data: PartitionData) -> Buffer:
    """The batches of an answer; a decoder gives them in one piece."""
    records = data.records
    return b"".join(records) if isinstance(records, list) else records or b""
