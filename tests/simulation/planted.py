"""Bugs to plant: each breaks one guarantee of the broker in a way that has occurred before.

In: a pytest monkeypatch. Out: a broker that is wrong in one place. Never: used outside of
tests of the checkers; a checker that misses its bug is useless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from broker.controller.decisions import alter_partition, brokers, leadership
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.kraft.effects import EffectExecutor
from broker.controller.kraft.raft.election import QuorumElection
from broker.controller.kraft.raft.leader import LeaderState
from broker.controller.kraft.raft.messages import (
    ElectionState,
    HighWatermarkAdvanced,
    OffsetAndEpoch,
)
from broker.controller.kraft.storage import integrity, raft_log
from broker.controller.kraft.storage.unflushed_batches import UnflushedBatches
from broker.coordinator.group.records import OFFSETS_TOPIC
from broker.coordinator.partition_writer import PartitionWriter
from broker.disk.port import METADATA_WORKER, Disk
from broker.handlers import partition_fetch
from broker.log import maintenance, producer_state
from broker.log.batch_scanner import BatchScanner
from broker.log.files import LOG, base_offset_of, segment_path
from broker.log.log import Log
from broker.log.producer_state import ProducerState
from broker.log.recovery import Recovery
from broker.log.segment import Segment
from broker.metadata.delta_topics import TopicsDelta
from broker.replica.fetch.fetcher import Fetcher
from broker.replica.leader_state import Eligible, IsrProposal, PartitionLeader
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from bus.errors import ErrorCode

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_replication(patch: pytest.MonkeyPatch) -> None:
    """The broker answers acks=all like acks=1."""
    patch.setattr(
        Partition, "is_acknowledged",
        lambda self, end, epoch=-1: (
            ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        ),
    )  # fmt: skip


def watermark_of_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """The watermark is the leader's log end, regardless of the followers."""
    patch.setattr(PartitionLeader, "high_watermark", lambda self, end, now, lag, eligible: end)


def follower_cuts_to_its_own_watermark(patch: pytest.MonkeyPatch) -> None:
    """A follower truncates as before KIP-101, though its watermark lags behind acknowledged
    records."""
    add = Fetcher.add

    def wrong(self: Fetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.high_watermark, self._clock.now_ms())
        add(self, partition)

    patch.setattr(Fetcher, "add", wrong)


def divergence_is_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    """A leader lets followers append after a history that is not its own."""
    patch.setattr(partition_fetch, "_diverging_epoch", lambda partition, entry: None)


def unclean_election(patch: pytest.MonkeyPatch) -> None:
    """Any live replica may be elected."""
    patch.setattr(PartitionPolicy, "unclean_allowed", lambda self, image, topic: True)
    patch.setattr(leadership, "election_context", _without_elr(leadership.election_context))


def _without_elr(made: Callable[..., Any]) -> Callable[..., Any]:
    def terms(*arguments: Any, **more: Any) -> Any:
        found = made(*arguments, **more)
        return type(found)(**{**_fields(found), "elr_enabled": False})

    return terms


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def a_lost_page_cache_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A broker that returns without its unflushed records stays in sync and eligible."""
    patch.setattr(brokers, "_previous_incarnation_changes", lambda image, rules, old, asked: [])


def logs_are_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """The recovery point passes records that are only in the page cache."""
    patch.setattr(maintenance, "run_flush", lambda disk, directory, flush: None)
    patch.setattr(Segment, "flush", lambda self: None)


def followers_forget_producers(patch: pytest.MonkeyPatch) -> None:
    """A new leader lacks its predecessor's state of idempotent producers."""
    note = Log._index_replicated

    def wrong(self: Log, header: Any, batch: Any) -> None:
        note(self, header._replace(producer_id=-1), batch)

    patch.setattr(Log, "_index_replicated", wrong)


def one_batch_is_remembered_per_producer(patch: pytest.MonkeyPatch) -> None:
    """Of five batches in flight the four older ones are out of order when they are retried."""
    patch.setattr(producer_state, "RETAINED_BATCHES", 1)


def sequence_gaps_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A batch may overtake the one before it."""
    patch.setattr(ProducerState, "_check_sequence", staticmethod(lambda entry, header: None))


def producers_are_lost_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A restarted broker has lost its state of idempotent producers."""
    run = Recovery.run

    def wrong(self: Recovery, names: list[str], **words: Any) -> Any:
        return run(self, names, **words)._replace(producers=ProducerState())

    patch.setattr(Recovery, "run", wrong)


def a_leader_does_not_step_down(patch: pytest.MonkeyPatch) -> None:
    """A leader continues although the metadata name another one."""
    update = Partition.update

    def wrong(self: Partition, **words: Any) -> bool:
        if self.is_leader and words["leader_id"] != self.leader_id:
            return False
        return update(self, **words)

    patch.setattr(Partition, "update", wrong)


def leader_epochs_stay(patch: pytest.MonkeyPatch) -> None:
    """A new leader keeps the epoch of the previous one."""
    change = TopicsDelta.change

    def wrong(self: TopicsDelta, record: Any) -> None:
        place = record.topic_id, record.partition_id
        epoch = self._current(*place).leader_epoch
        change(self, record)
        self._put(record.topic_id, replace(self._current(*place), leader_epoch=epoch))

    patch.setattr(TopicsDelta, "change", wrong)


def the_set_shrinks_before_the_controller_agrees(patch: pytest.MonkeyPatch) -> None:
    """A leader uses a smaller set that it has only requested."""
    propose = PartitionLeader._propose

    def wrong(self: PartitionLeader, isr: Any, epoch: int, *, expands: bool) -> IsrProposal:
        proposal = propose(self, isr, epoch, expands=expands)
        if not expands:
            self.isr = self.maximal_isr = isr
        return proposal

    patch.setattr(PartitionLeader, "_propose", wrong)


def a_pending_expansion_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The watermark considers only the current set, while the controller may have stored the larger
    one already (KIP-497)."""
    propose = PartitionLeader._propose

    def wrong(self: PartitionLeader, isr: Any, epoch: int, *, expands: bool) -> IsrProposal:
        proposal = propose(self, isr, epoch, expands=expands)
        self.maximal_isr = self.isr
        return proposal

    patch.setattr(PartitionLeader, "_propose", wrong)


def the_watermark_rises_below_min_isr(patch: pytest.MonkeyPatch) -> None:
    """Consumers see records on fewer replicas than min.insync.replicas (KIP-966)."""
    advance = Partition._advance_high_watermark
    under = Partition.is_under_min_isr.fget
    assert under is not None
    advancing: list[Partition] = []

    def wrong(self: Partition) -> bool:
        advancing.append(self)
        try:
            return advance(self)
        finally:
            advancing.pop()

    patch.setattr(Partition, "_advance_high_watermark", wrong)
    patch.setattr(
        Partition, "is_under_min_isr",
        property(lambda self: self not in advancing and under(self)),
    )  # fmt: skip


def in_sync_below_the_leaders_beginning(patch: pytest.MonkeyPatch) -> None:
    """A new leader's watermark lags; a follower that has reached it is proposed as in sync
    (KAFKA-7128)."""
    growth = PartitionLeader.propose_expand

    def wrong(
        self: PartitionLeader, replica: int, watermark: int, epoch: int, eligible: Eligible
    ) -> IsrProposal | None:
        right, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return growth(self, replica, watermark, epoch, eligible)
        finally:
            self.epoch_start_offset = right

    patch.setattr(PartitionLeader, "propose_expand", wrong)


def outdated_in_sync_sets_are_stored(patch: pytest.MonkeyPatch) -> None:
    """The controller stores a leader's request from an outdated epoch."""
    patch.setattr(alter_partition, "_check_epochs", lambda partition, broker_id, change: None)


def consumers_read_to_the_log_end(patch: pytest.MonkeyPatch) -> None:
    """Unreplicated records are served and may disappear after an election."""
    patch.setattr(Partition, "end_for", lambda self, isolation: self.log.end_offset)


def commits_are_answered_before_they_are_replicated(patch: pytest.MonkeyPatch) -> None:
    """A group's offsets are acknowledged once the leader has them."""
    right = Partition.is_acknowledged

    def wrong(self: Partition, end: int, epoch: int = -1) -> ErrorCode | None:
        if self.topic == OFFSETS_TOPIC and self.is_leader:
            return ErrorCode.NONE
        return right(self, end, epoch)

    patch.setattr(Partition, "is_acknowledged", wrong)


def a_new_coordinator_reads_nothing(patch: pytest.MonkeyPatch) -> None:
    """A group that has moved starts without its offsets."""
    patch.setattr(PartitionWriter, "is_empty", lambda self, index: True)


def votes_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """A voter grants every request of the same epoch."""
    patch.setattr(QuorumElection, "_can_grant_vote", lambda self, request, now: True)


def metadata_commit_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """The active controller treats as committed what it has only written itself."""

    def wrong(self: LeaderState) -> None:
        quorum = self._quorum
        if self.current is not None and quorum.log.flushed_offset > quorum.high_watermark:
            quorum.high_watermark = quorum.log.flushed_offset
            quorum.effects.append(HighWatermarkAdvanced(quorum.high_watermark))

    patch.setattr(LeaderState, "advance_high_watermark", wrong)


def a_vote_is_answered_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """Epoch and vote are stored concurrently with the answer, not before it."""
    right = EffectExecutor._persist

    async def wrong(self: EffectExecutor, state: ElectionState) -> None:
        self._context.clock.spawn(right(self, state), name="late vote")

    patch.setattr(EffectExecutor, "_persist", wrong)


def a_voter_says_what_it_has_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """Appends of the metadata log count as stored while their flush still runs."""

    async def wrong(self: EffectExecutor) -> None:
        raft_log = self._context.log
        flush = raft_log.begin_flush()
        if flush is not None:
            raft_log.mark_flushed(flush)
            later = self._disk.run(raft_log.force, flush, worker=METADATA_WORKER)
            self._context.clock.spawn(later, name="late flush")

    patch.setattr(EffectExecutor, "force", wrong)


def a_cut_goes_below_what_was_flushed(patch: pytest.MonkeyPatch) -> None:
    """The end that `.databus_flushed_end` names counts as exact. After a loss of power it may be a
    second old: sound batches behind it, which were flushed and acknowledged, are put aside (ADR
    0079)."""
    right = integrity.check_integrity

    def wrong(
        disk: Disk, directory: str, latest: OffsetAndEpoch | None, *,
        flushed_end: int | None = None, is_only_voter: bool = False,
    ) -> UnflushedBatches | None:  # fmt: skip
        tail = right(
            disk, directory, latest, flushed_end=flushed_end, is_only_voter=is_only_voter
        )  # fmt: skip
        if tail is not None or flushed_end is None:
            return tail
        return _behind(disk, directory, flushed_end)

    patch.setattr(raft_log, "check_integrity", wrong)


def _behind(disk: Disk, directory: str, end: int) -> UnflushedBatches | None:
    """The first batch that ends above an offset, and all that follow."""
    names = [name for name in disk.listdir(directory) if name.endswith(LOG)]
    for base in sorted(base for name in names if (base := base_offset_of(name)) is not None):
        path = segment_path(directory, base, LOG)
        file = disk.open(path)
        try:
            for one in BatchScanner(file, 0, disk.size_of(path), base_offset=base, crc_from=0):
                if one.header.end_offset > end:
                    return UnflushedBatches(base, one.position, one.header.base_offset, "planted")
        finally:
            file.close()
    return None


def an_acknowledgement_outlives_its_leadership(patch: pytest.MonkeyPatch) -> None:
    """A re-elected leader acknowledges records that it appended before another leader's term."""
    right = Partition.is_acknowledged
    patch.setattr(Partition, "is_acknowledged", lambda self, end, epoch=-1: right(self, end))


def waiting_requests_are_asked_of_leaders_only(patch: pytest.MonkeyPatch) -> None:
    """Requests waiting for an acknowledgement are not answered when the leadership ends."""
    moved = ReplicaManager.on_log_advanced

    def wrong(self: ReplicaManager, partition: Partition, rose: bool) -> None:
        if partition.is_leader:
            moved(self, partition, rose)

    patch.setattr(ReplicaManager, "on_log_advanced", wrong)


PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        acknowledged_before_replication,
        watermark_of_the_leader_alone,
        follower_cuts_to_its_own_watermark,
        divergence_is_not_looked_for,
        unclean_election,
        a_lost_page_cache_is_not_noticed,
        logs_are_not_flushed,
        followers_forget_producers,
        one_batch_is_remembered_per_producer,
        sequence_gaps_are_accepted,
        producers_are_lost_at_a_restart,
        a_leader_does_not_step_down,
        leader_epochs_stay,
        the_set_shrinks_before_the_controller_agrees,
        the_watermark_rises_below_min_isr,
        consumers_read_to_the_log_end,
        commits_are_answered_before_they_are_replicated,
        a_new_coordinator_reads_nothing,
        votes_are_given_twice,
        metadata_commit_without_a_majority,
        a_vote_is_answered_before_it_is_stored,
        a_voter_says_what_it_has_not_flushed,
        a_cut_goes_below_what_was_flushed,
    )
}
"""Caught by worlds drawn from seeds (`test_planted_bugs`)."""

SCHEDULED: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        a_pending_expansion_is_forgotten,
        in_sync_below_the_leaders_beginning,
        outdated_in_sync_sets_are_stored,
    )
}
"""Caught by scripted worlds (`test_in_sync_schedules`)."""
