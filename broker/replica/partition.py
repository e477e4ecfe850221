"""One partition as this broker's replica sees it: who leads, who is in sync, what is visible.

In: batches to append, fetches of followers, offsets to read, leadership as the controller decides
it. Out: offsets, byte ranges up to the visible end, ``LogError``; its host hears when the log's end
or the high watermark moved and when another in-sync set is to be asked for. Never: who waits for
what; I/O other than the log's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from broker.log.epochs import EpochEnd
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.records_in import AppendInfo, Origin
from broker.log.segments import FetchSlice
from broker.log.timestamps import TimestampOffset, first_at_or_after, with_largest_timestamp
from broker.replica.follower import Follower
from broker.replica.leadership import IsrProposal, Leadership
from bus.errors import ErrorCode
from bus.records.batch import Buffer

log = logging.getLogger("broker.replica")

ACKS_ALL = -1
ANY_EPOCH = -1
NO_LEADER = -1
MAX_TIMESTAMP = -3


class Isolation(Enum):
    """How far a reader may see."""

    LOG_END = "log-end"
    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"


class Host(Protocol):
    """What a partition needs of its replica manager."""

    broker_id: int

    @property
    def lag_time_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...

    def on_moved(self, partition: Partition, watermark_rose: bool, /) -> None:
        """Something was appended, became visible to all, or can no longer be had here."""

    def is_eligible(self, broker_id: int, broker_epoch: int, /) -> bool:
        """Whether the replica's broker is neither fenced nor stopping nor another incarnation."""

    def flush_soon(self, partition: Partition, /) -> object:
        """flush.messages wants what was appended flushed before anybody is told of it."""

    def propose(self, partition: Partition, proposal: IsrProposal, /) -> None:
        """Ask the controller for another in-sync set."""

    def on_follower_start(self, partition: Partition, /) -> None:
        """A follower's log begins later now; who waits for deletion may be answered."""

    def on_leadership(self, partition: Partition, /) -> None:
        """This broker leads the partition from now on, or leads it no more."""

    def failed(self, partition: Partition, error: LogError, /) -> None:
        """The log could not be written or read."""


class Partition:
    """A replica of a partition on this broker.

    Invariant: while this broker leads, ``high_watermark`` only rises and is the smallest log end
    over the maximal in-sync set. Invariant: ``leader_epoch`` never falls; ``led_since`` is the
    epoch in which the present unbroken leadership began.
    """

    __slots__ = (
        "_host",
        "adding",
        "index",
        "is_offline",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "leadership",
        "led_since",
        "log",
        "partition_epoch",
        "removing",
        "replicas",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log, host: Host) -> None:
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
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.leadership: Leadership | None = None
        self.led_since = -1
        self.is_offline = False
        self.watchers: dict[object, None] = {}
        self._host = host

    @property
    def is_leader(self) -> bool:
        return self.leadership is not None

    @property
    def high_watermark(self) -> int:
        """The end of what all in-sync replicas have; what consumers may see."""
        return self.log.high_watermark

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer are in sync than ``min.insync.replicas``, of which no topic can have more
        than it has replicas."""
        in_sync = len(self.isr)
        return in_sync < self.log.config.min_insync_replicas and in_sync < len(self.replicas)

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
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
    ) -> bool:
        """What the controller says now; whether it was news. An older partition epoch is not.

        Nor is the present one again: its in-sync set is in force already, and a proposal that was
        made since must not be forgotten.
        """
        older = partition_epoch < self.partition_epoch or leader_epoch < self.leader_epoch
        same = (leader_epoch, partition_epoch) == (self.leader_epoch, self.partition_epoch)
        if older or (same and leader_id == self.leader_id):
            return False
        new_epoch = leader_epoch > self.leader_epoch or leader_id != self.leader_id
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas, self.isr = list(replicas), list(isr)
        self.adding, self.removing = tuple(adding), tuple(removing)
        if leader_id == self._host.broker_id:
            self._lead(new_epoch)
        elif self.leadership is not None:
            self._lead_no_more()
        elif new_epoch:
            self._host.on_moved(self, False)
        return True

    def _lead(self, new_epoch: bool) -> None:
        now_ms = self._host.monotonic_ms()
        led_before = self.leadership is not None
        if not led_before:
            self.led_since = self.leader_epoch
        if self.leadership is None or new_epoch:
            end = self.log.end_offset
            # Known from now on, not from the first append: a follower that asks where an older
            # epoch ended gets a definite answer (KIP-101).
            self.log.leader_epochs.assign(self.leader_epoch, end)
            self.leadership = Leadership(self._host.broker_id, self.leader_epoch, end)
        self.leadership.assign(self.replicas, self.isr, now_ms)
        self._advance_watermark()
        if not led_before:
            self._host.on_leadership(self)

    def _lead_no_more(self) -> None:
        self.leadership = None
        self._host.on_moved(self, False)  # whoever waits here has to hear of it
        self._host.on_leadership(self)

    def resign(self) -> None:
        """Lead no more, whatever the metadata says: the session is lost, the disk has failed."""
        self.leader_id = NO_LEADER
        if self.leadership is not None:
            self._lead_no_more()
        else:
            self._host.on_moved(self, False)

    def check_leader(self, current_leader_epoch: int = ANY_EPOCH) -> Leadership:
        """This broker's leadership; LogError unless it leads, in the epoch the asker believes in
        (KIP-320)."""
        self._check_epoch(current_leader_epoch)
        if self.leadership is None:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leadership

    def check_readable(self, current_leader_epoch: int, *, from_leader: bool) -> None:
        """Raise LogError unless it may be read here; followers serve consumers too (KIP-392)."""
        self._check_epoch(current_leader_epoch)
        if self.leadership is None and (from_leader or self.leader_id == NO_LEADER):
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch not in (ANY_EPOCH, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise LogError(ErrorCode.FENCED_LEADER_EPOCH)
            raise LogError(ErrorCode.UNKNOWN_LEADER_EPOCH)

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
        leadership = self.leadership
        if leadership is None:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if required_acks == ACKS_ALL and self.is_under_min_isr:
            raise LogError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} in sync, min.insync.replicas is {log.config.min_insync_replicas}",
            )
        try:
            info = log.append(records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.failed(self, error)
            raise
        if not info.duplicate:
            if log.needs_flush:
                self._host.flush_soon(self)
            if leadership.followers:
                leadership.on_append(info.base_offset, self._host.monotonic_ms())
            if not self._advance_watermark():
                self._host.on_moved(self, False)
        return info

    def is_acknowledged(self, end_offset: int, leader_epoch: int = ANY_EPOCH) -> ErrorCode | None:
        """Whether what was appended in ``leader_epoch`` and ends at ``end_offset`` is on all
        in-sync replicas; ``None``: not yet. Another leader since may have had it cut off again."""
        leadership = self.leadership
        if leadership is None or -1 < leader_epoch < self.led_since:
            return self._why_not()
        if self.log.high_watermark < end_offset:
            return None
        if len(leadership.maximal_isr) < min(
            self.log.config.min_insync_replicas, len(self.replicas)
        ):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def is_stored(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Whether what ends at ``end_offset`` is as durable here as acks=1 asks; ``None``: it
        waits for a flush."""
        if self.leadership is None or leader_epoch < self.led_since:
            return self._why_not()
        return ErrorCode.NONE if self.log.acknowledgeable_end_offset >= end_offset else None

    def _why_not(self) -> ErrorCode:
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def on_released(self) -> None:
        """What flush.messages kept back is on the device; whoever waits for that may be told."""
        if self.leadership is not None and not self._advance_watermark():
            self._host.on_moved(self, True)

    def append_as_follower(
        self, records: Buffer, now_ms: int, high_watermark: int, log_start_offset: int
    ) -> AppendInfo | None:
        """Take what the leader sent: batches, its watermark, its log start. None: no batch."""
        log = self.log
        info = log.append_as_follower(records, now_ms) if len(records) else None
        before = log.high_watermark
        if high_watermark > before:
            log.advance_high_watermark(max(before, min(high_watermark, log.end_offset)))
        if log_start_offset > log.log_start_offset:
            log.raise_start(min(log_start_offset, log.high_watermark))
        rose = log.high_watermark > before
        if self.watchers or rose:
            self._host.on_moved(self, rose)
        return info

    # --- followers -------------------------------------------------------------------------------

    def follower(self, replica_id: int) -> Follower:
        """What is known of a follower that asks; LogError if it is none of ours.

        UNKNOWN_LEADER_EPOCH where the asker may know more than we do: a reassignment has made it
        a replica and we have not heard of it.
        """
        leadership = self.leadership
        if leadership is None:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        found = leadership.followers.get(replica_id)
        if found is None:
            raise LogError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{replica_id} is no replica")
        return found

    def on_follower_fetch(
        self, replica_id: int, offset: int, log_start_offset: int = 0, broker_epoch: int = -1
    ) -> None:
        """A follower asks for ``offset``: the watermark may rise, the in-sync set may grow."""
        follower = self.follower(replica_id)
        if -1 < broker_epoch < follower.broker_epoch:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a fetch of a former incarnation")
        leadership = self.check_leader()
        start_before = follower.log_start_offset
        follower.on_fetch(
            offset,
            log_start_offset,
            self.log.end_offset,
            self._host.monotonic_ms(),
            broker_epoch,
        )
        if log_start_offset != start_before:
            self._host.on_follower_start(self)
        if replica_id not in leadership.maximal_isr:
            self._consider_growth(leadership, replica_id)
        self._advance_watermark()

    def _consider_growth(self, leadership: Leadership, replica_id: int) -> None:
        proposal = leadership.growth(
            replica_id, self.log.high_watermark, self.partition_epoch, self._host.is_eligible
        )
        if proposal is not None:
            self._host.propose(self, proposal)

    def consider_growth(self) -> None:
        """Ask for whoever has earned it and was refused when it last fetched: its broker was fenced
        then, another proposal was under way. A session does not repeat an idle partition.

        One that is silent and behind has not: below min.insync.replicas the watermark rests where
        that follower is, and it would join and be taken out again for ever.
        """
        leadership = self.leadership
        if leadership is None:
            return
        end, now_ms = self.log.end_offset, self._host.monotonic_ms()
        for replica, follower in leadership.followers.items():
            if replica not in leadership.maximal_isr and follower.is_caught_up(
                end, now_ms, self._host.lag_time_ms
            ):
                self._consider_growth(leadership, replica)

    def consider_shrinking(self) -> None:
        """Ask for an in-sync set without those that do not keep up."""
        leadership = self.leadership
        if leadership is None or len(self.isr) == 1:
            return
        host = self._host
        proposal = leadership.shrinkage(
            self.log.end_offset, host.monotonic_ms(), host.lag_time_ms, self.partition_epoch
        )
        if proposal is not None:
            host.propose(self, proposal)

    def on_isr_stored(
        self, proposal: IsrProposal, isr: Sequence[int], partition_epoch: int
    ) -> bool:
        """The controller has stored an in-sync set for a proposal; whether that still matters."""
        leadership = self.leadership
        if leadership is None or leadership.pending is not proposal:
            return False
        if partition_epoch > self.partition_epoch:
            self.partition_epoch, self.isr = partition_epoch, list(isr)
            leadership.assign(self.replicas, isr, self._host.monotonic_ms())
        else:
            leadership.withdraw()
        self._advance_watermark()
        return True

    def on_isr_refused(self, proposal: IsrProposal) -> None:
        """The controller does not want the proposal."""
        leadership = self.leadership
        if leadership is not None and leadership.pending is proposal:
            leadership.withdraw()
            self._advance_watermark()

    # --- the high watermark ----------------------------------------------------------------------

    def _advance_watermark(self) -> bool:
        """Raise the watermark to the smallest end over the maximal ISR; whether it rose."""
        log, leadership = self.log, self.leadership
        if leadership is None:
            return False
        end = log.acknowledgeable_end_offset
        if leadership.followers and end > log.high_watermark:
            host = self._host
            end = leadership.watermark(end, host.monotonic_ms(), host.lag_time_ms, host.is_eligible)
        if end <= log.high_watermark:
            return False
        if self.is_under_min_isr:
            return False  # strict min ISR (KIP-966): the watermark rests while too few are in sync
        log.advance_high_watermark(end)
        self._host.on_moved(self, True)
        return True

    def reconsider_watermark(self) -> None:
        """Something outside has changed that may hold the watermark back no more."""
        self._advance_watermark()

    # --- reading ---------------------------------------------------------------------------------

    def end_for(self, isolation: Isolation) -> int:
        """The end of what a reader of that kind may see."""
        if isolation is Isolation.READ_UNCOMMITTED:
            return self.log.high_watermark
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.end_offset

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one: bool,
        isolation: Isolation,
        waits: bool = True,
    ) -> FetchSlice:
        """Whole batches from ``offset`` up to what the reader may see; see ``Log.read``."""
        try:
            return self.log.read(
                offset,
                max_bytes,
                upper_offset=self.end_for(isolation),
                min_one=min_one,
                waits=waits,
            )
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.failed(self, error)
            raise

    def offset_for_timestamp(
        self, timestamp_ms: int, isolation: Isolation
    ) -> TimestampOffset | None:
        """The first visible record at or after a time, or with -3 the one with the largest time;
        ``WouldWait`` if what it takes is not in memory."""
        try:
            with self.log.never_waiting():
                if timestamp_ms == MAX_TIMESTAMP:
                    found = with_largest_timestamp(self.log)
                else:
                    found = first_at_or_after(self.log, timestamp_ms)
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.failed(self, error)
            raise
        if found is None or found.offset >= self.end_for(isolation):
            return None
        return found

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above ``epoch``, and where it ends in this replica."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log's start (-1: to the high watermark); the new start."""
        self.check_leader()
        if self.log.config.compacted and not self.log.config.deletes:
            raise LogError(
                ErrorCode.POLICY_VIOLATION, "records of a compacted topic are not deleted by offset"
            )
        wanted = self.high_watermark if before_offset == -1 else before_offset
        start = self.log.delete_records_before(wanted)
        self._host.on_moved(self, False)
        return start
