"""One partition on its way from the source to the target. Pure; times come in as milliseconds.

In: what fetches and appends were answered. Out: what to fetch and what to append next.
Never: an append beside another one of the same partition, and never a record dropped: what is not
acknowledged is read again from the source, at the end that the target then has.

Life: `begin` with the ends of both sides, then `on_fetched` and `next_append`, `on_appended` until
`halt` throws away what is buffered; `begin` again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from bus.client.model import TopicPartition
from bus.client.wire.fetch_session import PartitionKey
from bus.client.wire.one_fetch import FetchFrom
from bus.protocol.wire import Buffer
from dr_mirror.copy.plan.batches import BatchRun
from dr_mirror.copy.plan.resume import ResumePoint, SourceOffsets
from dr_mirror.topics.states import MirrorState

NO_NODE = -1
_ANSWERING = (MirrorState.COPYING, MirrorState.HOLE)


class FetchedFrame:
    """The memory of one response, held until all runs out of it are appended or thrown away."""

    def __init__(self, size: int, release: Callable[[int], None]) -> None:
        self._size = size
        self._release = release
        self._runs = 0

    def hold(self) -> None:
        """One more run refers to it."""
        self._runs += 1

    def drop(self) -> None:
        """One run less; the last one frees the memory."""
        self._runs -= 1
        if self._runs == 0:
            self._release(self._size)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that waits for the target, with the memory it lies in."""

    run: BatchRun
    frame: FetchedFrame

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.run.data)


@dataclass(frozen=True, slots=True)
class PartitionAppend:
    """What one append carries. `data` is empty where only the source's log start has moved.
    `attempt` tells it from one of an earlier life of the partition."""

    attempt: int
    base_offset: int
    end_offset: int
    target_epoch: int
    source_log_start: int
    data: tuple[memoryview, ...]
    records: int
    size: int

    @property
    def joined(self) -> Buffer | None:
        """Its records in one piece; None: there are none."""
        if not self.data:
            return None
        return self.data[0] if len(self.data) == 1 else b"".join(self.data)


class PartitionCopy:
    """Invariant: while it is `copying`, `acknowledged` ≤ the base of everything in flight and
    queued ≤ `position`; `queued_bytes` is the sum of both."""

    def __init__(self, partition: TopicPartition, max_queued_bytes: int) -> None:
        self.partition = partition
        self._max_queued_bytes = max_queued_bytes
        self.topic_id = self.target_topic_id = b""
        self.target_replicas: tuple[int, ...] = ()
        self.source_leader = self.target_leader = NO_NODE
        self.source_epoch = self.target_epoch = -1
        self.state = MirrorState.STARTING
        self.detail = ""
        self.copying = False
        self.position = self.acknowledged = -1
        self.source = SourceOffsets(-1, -1)
        self.target_log_start = -1
        self.last_epoch = -1
        self.missing = 0
        self.copied_records = self.copied_bytes = 0
        self.caught_up_ms = -1
        self._marker: tuple[int, int] | None = None
        self._attempt = 0
        self._hole = ""
        self._hole_offsets = (-1, -1)
        self._is_noted = False
        self._queue: deque[QueuedRun] = deque()
        self._in_flight: list[QueuedRun] = []
        self._is_in_flight = False
        self.queued_bytes = 0

    @property
    def key(self) -> PartitionKey:
        """As fetch sessions name it."""
        return self.topic_id, self.partition.partition

    @property
    def wants_fetch(self) -> bool:
        """Whether it is copied and has room."""
        return self.copying and self.queued_bytes < self._max_queued_bytes

    @property
    def fetch_from(self) -> FetchFrom:
        """Where the next fetch begins: a log may begin within a batch, which comes whole."""
        offset = max(self.position, self.source.log_start)
        return FetchFrom(self.partition.topic, offset, self.source_epoch, self.last_epoch)

    @property
    def can_append(self) -> bool:
        """Whether an append may go now."""
        if not self.copying or self._is_in_flight:
            return False
        return bool(self._queue) or self.log_start_moved

    @property
    def has_queued(self) -> bool:
        """Whether fetched batches wait."""
        return bool(self._queue)

    @property
    def log_start_moved(self) -> bool:
        """Whether the source deleted records that the target still holds."""
        return self.copying and self.target_log_start < min(
            self.source.log_start, self.acknowledged
        )

    @property
    def held(self) -> tuple[int, int]:
        """What both sides hold: [start, end)."""
        start = max(self.source.log_start, self.target_log_start)
        return start, max(min(self.source.high_watermark, self.acknowledged), start)

    @property
    def lag_records(self) -> int:
        """Offsets that the source has and the target has not acknowledged; -1: not known."""
        if self.acknowledged < 0 or self.source.high_watermark < 0:
            return -1
        return max(self.source.high_watermark - self.acknowledged, 0)

    @property
    def lag_bytes(self) -> int:
        """The same in bytes: exact for what is fetched, the rest by the mean size so far."""
        not_fetched = max(self.source.high_watermark - max(self.position, 0), 0)
        mean = self.copied_bytes / self.copied_records if self.copied_records else 0
        return self.queued_bytes + int(not_fetched * mean)

    def begin(
        self,
        position: int,
        source: SourceOffsets,
        *,
        target_log_start: int,
        target_log_end: int,
        target_epoch: int,
        caught_up_ms: int,
    ) -> None:
        """Copy from `position` on. `caught_up_ms`: up to when the target had all; -1: unknown."""
        self.drop_queue()
        self.copying = True
        self._show_copying()
        self.position, self.acknowledged = position, target_log_end
        self.source, self.target_log_start = source, target_log_start
        self.target_epoch, self.last_epoch = target_epoch, -1
        self.caught_up_ms = max(self.caught_up_ms, caught_up_ms)
        self._marker = None

    def halt(self, state: MirrorState, detail: str = "") -> None:
        """Stop, throw away what is buffered."""
        self.copying = False
        self.state, self.detail = state, detail
        self.drop_queue()

    def note(self, state: MirrorState, detail: str) -> None:
        """Show this while it is copied; the next answer of the source removes it."""
        self.state, self.detail = state, detail
        self._is_noted = True

    def on_hole(self, point: ResumePoint) -> bool:
        """Copying is about to begin behind records that the source no longer has; shown from then
        on. Whether that is news: what the target has been told, and has not answered, is told
        again."""
        begin, before = point.position - point.missing, self._hole_offsets
        known_end = before[1] if before[0] == begin else begin
        if point.position <= known_end:
            return False
        self.missing += point.position - known_end
        self._hole_offsets, self._hole = (begin, point.position), point.detail
        return True

    def on_fetched(
        self, run: BatchRun | None, frame: FetchedFrame, source: SourceOffsets, now_ms: int
    ) -> None:
        """Batches from `position` on, or none, and what the source holds now."""
        self.source = source
        if self._is_noted:
            self._show_copying()
        if self._marker is None:
            self._marker = now_ms, source.high_watermark
        if run is not None:
            frame.hold()
            queued = QueuedRun(run, frame)
            self._queue.append(queued)
            self.queued_bytes += queued.size
            self.position, self.last_epoch = run.end_offset, run.leader_epoch
        self._mark_caught_up()

    def next_append(self, max_bytes: int) -> PartitionAppend:
        """What `can_append` says may go; at least one run, more up to `max_bytes`."""
        size = records = 0
        while self._queue and (not size or size + self._queue[0].size <= max_bytes):
            queued = self._queue.popleft()
            self._in_flight.append(queued)
            size += queued.size
            records += queued.run.records
        self._is_in_flight = True
        end = self._in_flight[-1].run.end_offset if self._in_flight else self.acknowledged
        data = tuple(queued.run.data for queued in self._in_flight)
        # Never beyond the target's end: the records in hand would be thrown away there.
        log_start = min(self.source.log_start, self.acknowledged)
        return PartitionAppend(
            self._attempt, self.acknowledged, end, self.target_epoch, log_start, data, records, size
        )

    def is_current(self, append: PartitionAppend) -> bool:
        """Whether its answer still means something."""
        return self.copying and append.attempt == self._attempt

    def on_appended(self, append: PartitionAppend, target_log_start: int) -> None:
        """All in-sync replicas of the target have it."""
        self.acknowledged = append.end_offset
        self.target_log_start = target_log_start
        self.copied_records += append.records
        self.copied_bytes += append.size
        self._free_in_flight()
        self._mark_caught_up()

    def drop_queue(self) -> None:
        """Free what is buffered; also what is in flight, whose answer means nothing any more."""
        self._attempt += 1
        self._free_in_flight()
        while self._queue:
            self._queue.popleft().frame.drop()
        self.queued_bytes = 0

    def _free_in_flight(self) -> None:
        for queued in self._in_flight:
            self.queued_bytes -= queued.size
            queued.frame.drop()
        self._in_flight.clear()
        self._is_in_flight = False

    def _show_copying(self) -> None:
        self._is_noted = False
        self.detail = self._hole
        self.state = MirrorState.HOLE if self._hole else MirrorState.COPYING

    def _mark_caught_up(self) -> None:
        if self._marker is not None and self.acknowledged >= self._marker[1]:
            self.caught_up_ms, self._marker = self._marker[0], None


def lag_s(copy: PartitionCopy, now_ms: int, answered_ms: int) -> float:
    """How old the oldest record can be that the target lacks; -1: not known.

    While the source is heard and nothing is behind: 0. Else the time since the target had all that
    the source had.
    """
    is_complete = copy.lag_records == 0
    if is_complete and copy.copying and copy.state in _ANSWERING:
        return 0.0
    caught_up_ms = max(copy.caught_up_ms, answered_ms if is_complete else -1)
    return -1.0 if caught_up_ms < 0 else max(now_ms - caught_up_ms, 0) / 1000
