"""Committed offsets as clients ask for them: the shell around `OffsetTable`.

In: commits, questions, deletions. Out: records in the log, then the answer.
Never: membership; a group says itself whether a commit may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from broker.coordinator.appender import ErrorCallback
from broker.coordinator.clock_reading import read_clock
from broker.coordinator.group import ClassicGroup
from broker.coordinator.leadership import Leadership
from broker.coordinator.records import CommittedOffset, OffsetRecord
from broker.coordinator.shard import CONSUMER
from broker.coordinator.subscription import subscribed_topics
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
    knows_missing_groups: bool = False


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
                told = request.knows_missing_groups
                done(ErrorCode.GROUP_ID_NOT_FOUND if told else ErrorCode.ILLEGAL_GENERATION)
                return
            group = shard.get_or_create(request.group_id, read_clock(self._clock))
        error = group.check_commit(request.member_id, request.group_instance_id, request.generation)
        if error:
            done(error)
            return
        self._carry_out(shard, group, group.touch(request.member_id, read_clock(self._clock)))
        self._append(
            shard,
            [
                OffsetRecord(request.group_id, topic, partition, value)
                for topic, partition, value in request.offsets
            ],
            done,
        )

    def check_fetch(self, group_id: str) -> ErrorCode:
        """Whether the group's offsets may be read here, by whomever."""
        shard = self._shard(group_id)
        return shard if isinstance(shard, ErrorCode) else ErrorCode.NONE

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
        """Remove offsets of topics the group does not read; `done` hears which of them it does."""
        if not group_id:
            done(ErrorCode.INVALID_GROUP_ID, frozenset())
            return
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            done(shard, frozenset())
            return
        group = shard.groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND, frozenset())
            return
        if len(group.roster) and group.protocol_type != CONSUMER:
            done(ErrorCode.NON_EMPTY_GROUP, frozenset())
            return
        asked = list(places)
        subscribed = _subscribed(group, frozenset(topic for topic, _ in asked))
        free = [place for place in asked if place[0] not in subscribed]
        records = shard.offsets.tombstones(group_id, free)
        self._append(shard, records, lambda error: done(error, subscribed))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Topics are gone; so is what groups had committed for them."""
        for shard in list(self._shards.values()):
            if shard.loaded:
                self._append(shard, shard.offsets.of_topics(topics), log_failure)


def _subscribed(group: ClassicGroup, topics: frozenset[str]) -> frozenset[str]:
    """Which of `topics` the members of the generation in force read; all, if that is not known."""
    found: frozenset[str] = frozenset()
    for member in group.roster:
        own = subscribed_topics(member.metadata(group.protocol_name))
        if own is None:
            return topics
        found |= own
    return topics & found


def log_failure(error: ErrorCode) -> None:
    """Nobody waits for these tombstones; they are tried again next time."""
    if error:
        log.warning("tombstones could not be written to __consumer_offsets: %s", error.name)
