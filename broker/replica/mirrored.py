"""What a mirror of another site does to a partition that this broker leads.

In: batches of the mirrored cluster, generations of the mirror, offsets at which its log begins or
the common part ends. Out: what was appended, or a ``LogError`` and nothing has changed. Never: who
may send it (`broker/handlers`), the bytes on the disk (`broker/log/mirrored.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.log.errors import LogError
from broker.log.mirrored import append_empty, append_mirrored
from broker.log.validation import AppendInfo
from broker.replica.leader_state import PartitionLeader
from broker.replica.partition import Partition, PartitionHost
from bus.errors import ErrorCode
from bus.records.batch import Buffer

EMPTY_BATCHES = 16
"""Of one request, so that it stays bounded; they cover 34,359,738,336 offsets."""


class PartitionMirror:
    """The mirror's side of one partition. What it remembers is the leader's: a new leader has heard
    of no claim."""

    __slots__ = ("_host", "_partition")

    def __init__(self, partition: Partition, host: PartitionHost) -> None:
        self._partition = partition
        self._host = host

    def append(
        self, records: Buffer, *, base_offset: int, generation: int, now_ms: int
    ) -> AppendInfo:
        """Append batches as acks=all does; see ``append_mirrored``. LogError FENCED_MEMBER_EPOCH
        for an older generation, STALE_MEMBER_EPOCH for one that has not claimed the partition."""
        partition = self._partition
        leader = self._check_claimed(generation)
        if partition.is_under_min_isr:
            raise LogError(ErrorCode.NOT_ENOUGH_REPLICAS, f"only {len(partition.isr)} in sync")
        return self._append(leader, base_offset, lambda: append_mirrored(
            partition.log, records, base_offset=base_offset, now_ms=now_ms,
            leader_epoch=partition.leader_epoch,
        ))  # fmt: skip

    def claim(self, generation: int) -> None:
        """Accept the records of this generation from now on, of no older one ever again while this
        broker leads. LogError FENCED_MEMBER_EPOCH if a newer one has claimed the partition,
        NOT_ENOUGH_REPLICAS while a replica has not cut off what ``truncate`` did."""
        leader = self._check_generation(generation)
        untruncated = leader.untruncated_followers()
        if untruncated:
            raise LogError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"replicas that have not cut their log yet: {untruncated}",
            )
        leader.truncating = None
        leader.mirror_generation = generation

    def follow_source_start(self, offset: int, now_ms: int) -> None:
        """The mirrored log begins at ``offset``: so does this one, as far as all in-sync replicas
        have what lies before it; the rest of the way with a later request.

        A log that ends before is continued up to there by batches without records, which followers
        copy as any: whoever leads next has them too if the watermark has passed them.
        """
        partition = self._partition
        leader, log = partition.check_leader(), partition.log
        if offset <= log.log_start_offset:
            return
        if log.high_watermark == log.end_offset and not partition.is_under_min_isr:
            self._append_empty(leader, offset, now_ms)
        log.advance_log_start_offset(min(offset, log.high_watermark))
        self._host.on_log_advanced(partition, False)

    def _append_empty(self, leader: PartitionLeader, end_offset: int, now_ms: int) -> None:
        partition, log = self._partition, self._partition.log
        for _ in range(EMPTY_BATCHES):
            if log.end_offset >= end_offset:
                return
            self._append(leader, log.end_offset, lambda: append_empty(
                log, end_offset, leader_epoch=partition.leader_epoch, now_ms=now_ms
            ))  # fmt: skip

    def _append(
        self, leader: PartitionLeader, end_before: int, append: Callable[[], AppendInfo]
    ) -> AppendInfo:
        """Append to a log that ends there; what is appended may begin beyond it."""
        try:
            info = append()
        except LogError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._host.on_log_error(self._partition, error)
            raise
        self._partition.on_appended(leader, info, end_before)
        return info

    def truncate(self, offset: int, *, generation: int, end_offset: int, now_ms: int) -> None:
        """Cut off what begins at or after ``offset``, and the batch that contains it. The log must
        end at ``end_offset``: LogError OFFSET_OUT_OF_RANGE, as for an offset outside it.

        The claim is void. No other is taken before every replica has cut its log: the leader epoch
        stays the same, so that one with a longer log would not be told that it differs once new
        records are here.
        """
        partition = self._partition
        leader, log = self._check_claimed(generation), partition.log
        log.guard.check_not_blocked()
        if end_offset != log.end_offset or not log.log_start_offset <= offset <= end_offset:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} of {end_offset}: the log is [{log.log_start_offset}, {log.end_offset})",
            )
        try:
            truncation = log.begin_truncate_to(offset, now_ms)
        except LogError as error:
            self._host.on_log_error(partition, error)
            raise
        leader.begin_truncation()
        partition.on_truncation(leader, truncation)

    def _check_claimed(self, generation: int) -> PartitionLeader:
        leader = self._check_generation(generation)
        if generation != leader.mirror_generation or leader.truncating is not None:
            raise LogError(
                ErrorCode.STALE_MEMBER_EPOCH,
                f"generation {generation} has not claimed the partition at this leader",
            )
        return leader

    def _check_generation(self, generation: int) -> PartitionLeader:
        leader = self._partition.check_leader()
        newest = max(leader.mirror_generation, self._partition.log.config.mirror_generation)
        if generation < newest:
            raise LogError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"generation {newest} of the mirror has the partition, this is {generation}",
            )
        return leader
