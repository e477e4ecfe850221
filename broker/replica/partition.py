"""One partition as this broker's replica sees it: who leads, who is in sync, what is visible.

In: batches to append as leader, offsets to read, leadership as the controller decides it. Out:
offsets, byte ranges up to the visible end, ``LogError``. Never: who waits for what; the replica
manager is told when the high watermark or the log's end has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from broker.log.epochs import EpochEnd
from broker.log.errors import LogError
from broker.log.log import FetchSlice, Log
from broker.log.records_in import AppendInfo, Origin
from broker.log.timestamps import TimestampOffset, first_at_or_after, with_largest_timestamp
from bus.errors import ErrorCode

ACKS_ALL = -1
ANY_EPOCH = -1
NO_LEADER = -1
MAX_TIMESTAMP = -3


class Isolation(Enum):
    """How far a reader may see."""

    LOG_END = "log-end"
    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"


class Partition:
    """A replica of a partition on this broker.

    Invariant: while this broker leads, ``high_watermark`` only rises and is the smallest log end
    over the in-sync replicas. Invariant: ``leader_epoch`` never falls.
    """

    __slots__ = (
        "_broker_id",
        "_follower_ends",
        "_moved",
        "index",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: Log,
        broker_id: int,
        moved: Callable[[Partition, bool], None],
    ) -> None:
        """``moved(partition, watermark_rose)`` is called after appends and watermark changes."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.key = (topic, index)
        self.log = log
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.replicas: list[int] = []
        self.isr: list[int] = []
        self._broker_id = broker_id
        self._follower_ends: dict[int, int] = {}
        self._moved = moved

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker_id

    @property
    def high_watermark(self) -> int:
        """The end of what all in-sync replicas have; what consumers may see."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The end of what a read-committed consumer may see."""
        return self.log.last_stable_offset

    # --- leadership ------------------------------------------------------------------------------

    def update(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
    ) -> None:
        """What the controller says now; an older partition epoch than known is left out."""
        if partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch:
            return
        led_before = self.is_leader
        self.leader_id = leader_id
        self.partition_epoch = partition_epoch
        self.replicas, self.isr = list(replicas), list(isr)
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self._follower_ends.clear()
        if self.is_leader:
            self._advance_watermark()
        elif led_before:
            self._moved(self, False)  # whoever waits here has to hear that we lead no more

    def check_leader(self, current_leader_epoch: int = ANY_EPOCH) -> None:
        """Raise LogError unless this broker leads, in the epoch the asker believes in (KIP-320)."""
        if current_leader_epoch != ANY_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise LogError(ErrorCode.FENCED_LEADER_EPOCH)
            raise LogError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader_id != self._broker_id:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- writing ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: bytes | bytearray | memoryview,
        *,
        required_acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
    ) -> AppendInfo:
        """Append one batch; see ``Log.append``. Nothing is written if too few are in sync."""
        if self.leader_id != self._broker_id:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if required_acks == ACKS_ALL and len(self.isr) < log.config.min_insync_replicas:
            raise LogError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in sync, min.insync.replicas is {log.config.min_insync_replicas}",
            )
        info = log.append(records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        if not info.duplicate and not self._advance_watermark():
            self._moved(self, False)
        return info

    def is_acknowledged(self, end_offset: int) -> ErrorCode | None:
        """Whether what ends at ``end_offset`` is on all in-sync replicas; ``None``: not yet."""
        if self.leader_id != self._broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        if len(self.isr) < self.log.config.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def on_follower_end(self, replica_id: int, end_offset: int) -> None:
        """A follower has fetched everything below ``end_offset``."""
        self._follower_ends[replica_id] = end_offset
        self._advance_watermark()

    def _advance_watermark(self) -> bool:
        """Raise the watermark to the smallest end over the ISR; whether it rose."""
        log = self.log
        end = log.end_offset
        if len(self.isr) > 1:
            ends = self._follower_ends
            end = min(
                end, *(ends.get(peer, -1) for peer in self.isr if peer != self._broker_id)
            )
        if end <= log.high_watermark:
            return False
        if len(self.isr) < log.config.min_insync_replicas and not self._may_advance():
            return False
        log.advance_high_watermark(end)
        self._moved(self, True)
        return True

    def _may_advance(self) -> bool:
        """Strict min ISR (KIP-966): the watermark rests while too few are in sync."""
        return len(self.isr) >= min(self.log.config.min_insync_replicas, len(self.replicas))

    # --- reading ---------------------------------------------------------------------------------

    def end_for(self, isolation: Isolation) -> int:
        """The end of what a reader of that kind may see."""
        if isolation is Isolation.READ_UNCOMMITTED:
            return self.log.high_watermark
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.end_offset

    def read(
        self, offset: int, max_bytes: int, *, min_one: bool, isolation: Isolation
    ) -> FetchSlice:
        """Whole batches from ``offset`` up to what the reader may see; see ``Log.read``."""
        return self.log.read(
            offset, max_bytes, upper_offset=self.end_for(isolation), min_one=min_one
        )

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: Isolation
    ) -> TimestampOffset | None:
        """The first visible record at or after a time, or with -3 the one with the largest time."""
        if timestamp_ms == MAX_TIMESTAMP:
            found = with_largest_timestamp(self.log)
        else:
            found = first_at_or_after(self.log, timestamp_ms)
        if found is None or found.offset >= self.end_for(isolation):
            return None
        return found

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above ``epoch``, and where it ends in this replica."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log's start (-1: to the high watermark); the new start."""
        self.check_leader()
        if not self.log.config.deletes:
            raise LogError(
                ErrorCode.POLICY_VIOLATION, "records of a compacted topic are not deleted by offset"
            )
        wanted = self.high_watermark if before_offset == -1 else before_offset
        start = self.log.delete_records_before(wanted)
        self._moved(self, False)
        return start
