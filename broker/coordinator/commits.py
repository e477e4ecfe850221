"""Committed offsets as clients ask for them: the shell around `OffsetTable`.

In: commits, questions, deletions. Out: records in the log, then the answer.
Never: membership; a group says itself whether a commit may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from broker.coordinator.appender import ErrorCallback
from broker.coordinator.leadership import Leadership
from broker.coordinator.records import CommittedOffset, OffsetRecord
from broker.coordinator.shard import group_subscription
from broker.coordinator.states import GroupState
from bus.errors import ErrorCode

log = logging.getLogger("broker.coordinator")


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Offsets that one member, or nobody in particular, commits."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    generation: int
    offsets: Sequence[tuple[str, int, CommittedOffset]]


class Commits(Leadership):
    """The offsets of all groups that are here."""

    def commit(self, request: CommitRequest, done: ErrorCallback) -> None:
        """Store offsets; `done` hears one code that holds for all of them."""
        shard = self._shard(request.group_id)
        if isinstance(shard, ErrorCode):
            done(shard)
            return
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.generation >= 0:
                done(ErrorCode.ILLEGAL_GENERATION)
                return
            group = shard.get_or_create(request.group_id, self._clock.now_ms())
        error = group.check_commit(
            request.member_id, request.group_instance_id, request.generation
        )
        if error:
            done(error)
            return
        self._carry_out(shard, group, group.touch(request.member_id, self._clock.now_ms()))
        self._append(
            shard,
            [
                OffsetRecord(request.group_id, topic, partition, value)
                for topic, partition, value in request.offsets
            ],
            done,
        )

    def check_fetch(
        self, group_id: str, member_id: str | None, member_epoch: int
    ) -> ErrorCode:
        """Whether the group's offsets may be read here (member id and epoch: KIP-848 only)."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if member_epoch >= 0 and member_id:
            group = shard.groups.get(group_id)
            known = group is not None and member_id in group.roster
            if not known:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if group is not None and member_epoch != group.generation:
                return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.NONE

    def offsets_of(self, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        """Everything the group has committed; empty if it is not here."""
        shard = self._shard(group_id)
        return {} if isinstance(shard, ErrorCode) else dict(shard.offsets.of(group_id))

    def delete_offsets(
        self,
        group_id: str,
        places: Iterable[tuple[str, int]],
        done: Callable[[ErrorCode, frozenset[str]], None],
    ) -> None:
        """Remove offsets of topics the group is not subscribed to; `done` hears which it is."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            done(shard, frozenset())
            return
        group = shard.groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND, frozenset())
            return
        subscribed = group_subscription(group) or frozenset()
        if group.state not in (GroupState.EMPTY, GroupState.STABLE):
            done(ErrorCode.NON_EMPTY_GROUP, frozenset())
            return
        free = [place for place in places if place[0] not in subscribed]
        records = shard.offsets.tombstones(group_id, free)
        self._append(shard, records, lambda error: done(error, subscribed))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Topics are gone; so is what groups had committed for them."""
        for shard in list(self._shards.values()):
            if shard.loaded:
                self._append(shard, shard.offsets.of_topics(topics), log_failure)


def log_failure(error: ErrorCode) -> None:
    """Nobody waits for these tombstones; they are tried again next time."""
    if error:
        log.warning("tombstones could not be written to __consumer_offsets: %s", error.name)
