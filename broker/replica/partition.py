"""One partition as this broker's replica sees it: who leads, who is in sync, what is visible.

In: batches to append, fetches of followers, offsets to read, leadership as the controller decides
it. Out: offsets, byte ranges up to the visible end, ``LogError``; it notifies its host when the
log's end or the high watermark advanced and when another in-sync set is to be proposed. Never:
which requests wait; I/O other than the log's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from broker.log.epochs import EpochEnd
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.segment import Segment
from broker.log.segments import FetchSlice, PendingTruncation
from broker.log.timestamps import TimestampOffset, TimestampSearch
from broker.log.validation import AppendInfo, AppendOrigin
from broker.replica.leader_state import IsrProposal, PartitionLeader, ReplicaState
from bus.errors import ErrorCode
from bus.records.batch import Buffer

log = logging.getLogger("broker.replica")

ACKS_ALL = -1
ANY_EPOCH = -1
NO_LEADER = -1


class Isolation(Enum):
    """How far a reader may see."""

    LOG_END = "log-end"
    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"


class PartitionHost(Protocol):
    """What a partition needs of its replica manager."""

    broker_id: int

    @property
    def lag_time_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...

    def on_log_advanced(self, partition: Partition, watermark_rose: bool, /) -> None:
        """Records were appended, became visible to all, or are no longer available here."""

    def is_eligible(self, broker_id: int, broker_epoch: int, /) -> bool:
        """Whether the replica's broker is neither fenced nor stopping nor another incarnation."""

    def flush_soon(self, partition: Partition, /) -> object:
        """flush.messages demands a flush before the append is acknowledged or visible."""

    def count_appended(self, topic: str, info: AppendInfo, /) -> None:
        """A leader's log has these records more, of whoever wrote them."""

    def propose(self, partition: Partition, proposal: IsrProposal, /) -> None:
        """Ask the controller for another in-sync set."""

    def on_follower_start(self, partition: Partition, /) -> None:
        """A follower's log start has risen; waiting DeleteRecords requests may be complete."""

    def on_leadership_changed(self, partition: Partition, /) -> None:
        """This broker begins or stops leading the partition."""

    def on_log_error(self, partition: Partition, error: LogError, /) -> None:
        """The log could not be written or read."""

    def on_restarted(self, partition: Partition, truncation: PendingTruncation, /) -> object:
        """The leader's log was cut; to be forced."""


class Partition:
    """A replica of a partition on this broker.

    Invariant: while this broker leads, ``high_watermark`` only rises and is the smallest log end
    over the maximal in-sync set. Invariant: ``leader_epoch`` never falls; ``leader_since_epoch``
    is the epoch in which the present uninterrupted leadership began.

    Whole, though long: an append, a follower's fetch and a stored in-sync set each move the same
    watermark; what only a leader has is ``PartitionLeader``.
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
        "leader_since_epoch",
        "leader_state",
        "log",
        "partition_epoch",
        "removing",
        "replicas",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: Log, host: PartitionHost
    ) -> None:
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
        self.leader_state: PartitionLeader | None = None
        self.leader_since_epoch = -1
        self.is_offline = False
        self.watchers: dict[object, None] = {}
        self._host = host

    @property
    def is_leader(self) -> bool:
        return self.leader_state is not None

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
        """Apply the controller's state; false if it is older than ours or the same.

        A repeated present epoch is ignored: its in-sync set is in force already, and a proposal
        that was made since must not be dropped.
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
            self._become_leader(new_epoch)
        elif self.leader_state is not None:
            self._stop_leading()
        elif new_epoch:
            self._host.on_log_advanced(self, False)
        return True

    def _become_leader(self, new_epoch: bool) -> None:
        now_ms = self._host.monotonic_ms()
        was_leader = self.leader_state is not None
        if not was_leader:
            self.leader_since_epoch = self.leader_epoch
        if self.leader_state is None or new_epoch:
            end = self.log.end_offset
            # Assigned now, not with the first append: a follower that asks where an older epoch
            # ended gets a definite answer (KIP-101).
            self.log.leader_epochs.assign(self.leader_epoch, end)
            self.leader_state = PartitionLeader(self._host.broker_id, self.leader_epoch, end)
        self.leader_state.assign(self.replicas, self.isr, now_ms)
        self._advance_high_watermark()
        if not was_leader:
            self._host.on_leadership_changed(self)

    def _stop_leading(self) -> None:
        self.leader_state = None
        self._host.on_log_advanced(self, False)  # requests that wait here have to be answered
        self._host.on_leadership_changed(self)

    def resign(self) -> None:
        """Stop leading regardless of the metadata: the session is lost or the disk has failed."""
        self.leader_id = NO_LEADER
        if self.leader_state is not None:
            self._stop_leading()
        else:
            self._host.on_log_advanced(self, False)

    def check_leader(self, current_leader_epoch: int = ANY_EPOCH) -> PartitionLeader:
        """The leader's state; LogError unless this broker leads in the epoch the client names
        (KIP-320)."""
        self._check_epoch(current_leader_epoch)
        if self.leader_state is None:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.leader_state

    def check_readable(self, current_leader_epoch: int, *, from_leader: bool) -> None:
        """Raise LogError unless it may be read here; followers serve consumers too (KIP-392)."""
        self._check_epoch(current_leader_epoch)
        if self.leader_state is None and (from_leader or self.leader_id == NO_LEADER):
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
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append one batch; see ``Log.append``. Nothing is written if too few are in sync."""
        leader = self.leader_state
        if leader is None:
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
                self._host.on_log_error(self, error)
            raise
        # A batch that came before moves no offset: who waits for it was woken then.
        if not info.duplicate:
            self.on_appended(leader, info, info.base_offset)
        return info

    def on_appended(self, leader: PartitionLeader, info: AppendInfo, end_before: int) -> None:
        """The leader's log has grown by ``info``; it ended at ``end_before``. Every append passes
        here: of a client, a coordinator, a mirror."""
        self._host.count_appended(self.topic, info)
        if self.log.needs_flush:
            self._host.flush_soon(self)
        if leader.followers:
            leader.on_append(end_before, self._host.monotonic_ms())
        # The watermark mostly rises by the followers' fetches, which wait for this batch; where it
        # rose at once, for a leader alone in sync, everybody who waits has been woken by that.
        if not self._advance_high_watermark():
            self._host.on_log_advanced(self, False)

    def on_truncation(self, leader: PartitionLeader, truncation: PendingTruncation) -> None:
        """The leader's log was cut; it is not forced yet."""
        epochs = self.log.leader_epochs
        epochs.assign(self.leader_epoch, self.log.end_offset)
        leader.epoch_start_offset = epochs.entries[-1][1]
        self._host.on_restarted(self, truncation)
        self._host.on_log_advanced(self, False)

    def is_acknowledged(self, end_offset: int, leader_epoch: int = ANY_EPOCH) -> ErrorCode | None:
        """Whether what was appended in ``leader_epoch`` and ends at ``end_offset`` is on all
        in-sync replicas; ``None``: not yet. Another leader since may have had it cut off again."""
        leader = self.leader_state
        if leader is None or -1 < leader_epoch < self.leader_since_epoch:
            return self._refusal_code()
        if self.log.high_watermark < end_offset:
            return None
        if len(leader.maximal_isr) < min(
            self.log.config.min_insync_replicas, len(self.replicas)
        ):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def is_stored(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Whether what ends at ``end_offset`` is as durable here as acks=1 asks; ``None``: it
        waits for a flush."""
        if self.leader_state is None or leader_epoch < self.leader_since_epoch:
            return self._refusal_code()
        return ErrorCode.NONE if self.log.acknowledgeable_end_offset >= end_offset else None

    def _refusal_code(self) -> ErrorCode:
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def on_released(self) -> None:
        """What flush.messages kept back is on the device; requests that wait for it may
        complete."""
        if self.leader_state is not None and not self._advance_high_watermark():
            self._host.on_log_advanced(self, True)

    def append_as_follower(
        self, records: Buffer, now_ms: int, high_watermark: int, log_start_offset: int
    ) -> AppendInfo | None:
        """Apply the leader's answer: batches, high watermark, log start. None: no batch."""
        log = self.log
        info = log.append_as_follower(records, now_ms) if len(records) else None
        before = log.high_watermark
        if high_watermark > before:
            log.advance_high_watermark(max(before, min(high_watermark, log.end_offset)))
        if log_start_offset > log.log_start_offset:
            log.advance_log_start_offset(min(log_start_offset, log.high_watermark))
        rose = log.high_watermark > before
        if self.watchers or rose:
            self._host.on_log_advanced(self, rose)
        return info

    # --- followers -------------------------------------------------------------------------------

    def follower(self, replica_id: int) -> ReplicaState:
        """The state of a follower; LogError if it is none of ours.

        UNKNOWN_LEADER_EPOCH because the follower may know more than we do: a reassignment may have
        made it a replica in metadata that have not arrived here yet.
        """
        leader = self.leader_state
        if leader is None:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        found = leader.followers.get(replica_id)
        if found is None:
            raise LogError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{replica_id} is no replica")
        return found

    def on_follower_fetch(
        self, replica_id: int, offset: int, log_start_offset: int = 0, broker_epoch: int = -1
    ) -> None:
        """A follower fetches from ``offset``: the watermark may rise, the in-sync set may
        expand."""
        follower = self.follower(replica_id)
        if -1 < broker_epoch < follower.broker_epoch:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a fetch of a former incarnation")
        leader = self.check_leader()
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
        if replica_id not in leader.maximal_isr:
            self._maybe_add_to_isr(leader, replica_id)
        self._advance_high_watermark()

    def _maybe_add_to_isr(self, leader: PartitionLeader, replica_id: int) -> None:
        proposal = leader.propose_expand(
            replica_id, self.log.high_watermark, self.partition_epoch, self._host.is_eligible
        )
        if proposal is not None:
            self._host.propose(self, proposal)

    def maybe_expand_isr(self) -> None:
        """Propose to add followers that caught up but were not eligible at their last fetch: their
        broker was fenced, or another proposal was pending. A session does not repeat an idle
        partition, so no further fetch would trigger it.

        A follower that is silent and behind is not added: below min.insync.replicas the watermark
        stays at its offset, and it would join and be removed again for ever.
        """
        leader = self.leader_state
        if leader is None:
            return
        end, now_ms = self.log.end_offset, self._host.monotonic_ms()
        for replica, follower in leader.followers.items():
            if replica not in leader.maximal_isr and follower.is_caught_up(
                end, now_ms, self._host.lag_time_ms
            ):
                self._maybe_add_to_isr(leader, replica)

    def maybe_shrink_isr(self) -> None:
        """Propose an in-sync set without the followers that do not keep up."""
        leader = self.leader_state
        if leader is None or len(self.isr) == 1:
            return
        host = self._host
        proposal = leader.propose_shrink(
            self.log.end_offset, host.monotonic_ms(), host.lag_time_ms, self.partition_epoch
        )
        if proposal is not None:
            host.propose(self, proposal)

    def on_isr_stored(
        self, proposal: IsrProposal, isr: Sequence[int], partition_epoch: int
    ) -> bool:
        """The controller has stored an in-sync set for a proposal; false if it is outdated here."""
        leader = self.leader_state
        if leader is None or leader.pending is not proposal:
            return False
        if partition_epoch > self.partition_epoch:
            self.partition_epoch, self.isr = partition_epoch, list(isr)
            leader.assign(self.replicas, isr, self._host.monotonic_ms())
        else:
            leader.clear_pending()
        self._advance_high_watermark()
        return True

    def on_isr_refused(self, proposal: IsrProposal) -> None:
        """The controller has refused the proposal."""
        leader = self.leader_state
        if leader is not None and leader.pending is proposal:
            leader.clear_pending()
            self._advance_high_watermark()

    # --- the high watermark ----------------------------------------------------------------------

    def _advance_high_watermark(self) -> bool:
        """Raise the watermark to the smallest end over the maximal ISR; whether it rose."""
        log, leader = self.log, self.leader_state
        if leader is None:
            return False
        end = log.acknowledgeable_end_offset
        if leader.followers and end > log.high_watermark:
            host = self._host
            end = leader.high_watermark(
                end, host.monotonic_ms(), host.lag_time_ms, host.is_eligible
            )
        if end <= log.high_watermark:
            return False
        if self.is_under_min_isr:
            return False  # strict min ISR (KIP-966): no rise while too few are in sync
        log.advance_high_watermark(end)
        self._host.on_log_advanced(self, True)
        return True

    def maybe_advance_high_watermark(self) -> None:
        """Raise the high watermark if a condition outside this partition stopped holding it
        back."""
        self._advance_high_watermark()

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
                skips_empty=isolation is not Isolation.LOG_END,
            )
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.on_log_error(self, error)
            raise

    def read_segment(self, segment: Segment, position: int, max_bytes: int) -> Buffer:
        """Whole batches of one segment from a position on, at least one; ``WouldBlock`` if they
        are not in memory. For who reads all of a log and has to tell a hole from damage."""
        try:
            return self.log.read_segment(segment, position, max_bytes)
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.on_log_error(self, error)
            raise

    def continue_search(
        self, search: TimestampSearch, isolation: Isolation
    ) -> TimestampOffset | None:
        """What a look-up by time has found, if that is visible. Raises SearchPending or
        ``WouldBlock`` while it has not come to its end."""
        try:
            found = search.next_piece()
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.on_log_error(self, error)
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
        if self.log.config.mirror_source_cluster_id:
            raise LogError(
                ErrorCode.POLICY_VIOLATION, "records of a mirrored topic go when the source's do"
            )
        if self.log.config.compacted and not self.log.config.deletes:
            raise LogError(
                ErrorCode.POLICY_VIOLATION, "records of a compacted topic are not deleted by offset"
            )
        wanted = self.high_watermark if before_offset == -1 else before_offset
        start = self.log.delete_records_before(wanted)
        self._host.on_log_advanced(self, False)
        return start
