"""The group coordinator: serves what members and administrators request of groups and offsets.

Core: `ClassicGroup` and `GroupShard`. Shell: finds a group's shard, runs the group's state machine
and executes its effects. Never: a rule about groups; a group itself decides whether a commit is
allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from broker.clock.port import Clock
from broker.coordinator.clock_reading import read_clock
from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.effects import (
    Effect,
    JoinRequest,
    JoinResult,
    PersistGroup,
    PersistReplacement,
    ReplyToJoin,
    ReplyToSync,
    ScheduleTimer,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.offsets import CommitRequest
from broker.coordinator.group.records import CommittedOffset, CoordinatorRecord, OffsetRecord
from broker.coordinator.group.shard import CONSUMER, GroupLimits, GroupShard
from broker.coordinator.group.states import GroupState
from broker.coordinator.group.subscription import subscribed_topics
from broker.coordinator.partition_writer import ErrorCallback, PartitionWriter
from broker.coordinator.runtime import CoordinatorRuntime
from broker.purgatory.timer import Timer
from bus.errors import ErrorCode

log = logging.getLogger("broker.coordinator")


class GroupCoordinator:
    """All groups whose partition of `__consumer_offsets` this broker leads.

    Invariant: a request that waits in a group is answered when its shard is unloaded.
    """

    def __init__(
        self,
        *,
        writer: PartitionWriter[CoordinatorRecord],
        timer: Timer,
        clock: Clock,
        limits: GroupLimits,
        partition_count: Callable[[], int],
    ) -> None:
        self._timer = timer
        self._clock = clock
        self._limits = limits
        self._runtime: CoordinatorRuntime[CoordinatorRecord, GroupShard] = CoordinatorRuntime(
            writer=writer,
            clock=clock,
            partition_count=partition_count,
            new_shard=lambda index: GroupShard(index, limits),
            on_loaded=self._start,
            on_unloaded=self._fail_all,
        )

    # -- leadership ------------------------------------------------------------------------

    def on_elected(self, index: int) -> None:
        """This broker leads the partition now."""
        self._runtime.on_elected(index)

    def on_resigned(self, index: int) -> None:
        """Another broker leads the partition, or it is deleted."""
        self._runtime.on_resigned(index)

    async def stop(self) -> None:
        """Unload all groups; waiting members learn that this is no longer their coordinator."""
        await self._runtime.stop()

    @property
    def topic_name(self) -> str:
        """`__consumer_offsets`."""
        return self._runtime.topic_name

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds this group."""
        return self._runtime.partition_of(group_id)

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not loaded yet."""
        return self._runtime.is_loading

    def _start(self, shard: GroupShard) -> None:
        for group_id, effects in shard.finish_loading(read_clock(self._clock)).items():
            self._execute(shard, shard.groups[group_id], effects)

    def _fail_all(self, shard: GroupShard) -> None:
        # Timers and late acknowledgements find no group any more; the next coordinator schedules
        # its own timers, and a session that expires here does not concern it.
        groups, shard.groups = shard.groups, {}
        for group in groups.values():
            effects = group.fail_all(ErrorCode.NOT_COORDINATOR, read_clock(self._clock))
            self._execute(shard, group, effects)

    # -- membership ------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> None:
        """Calls `request.reply` with a `JoinResult`."""
        answer: Callable[[JoinResult], None] = request.reply  # type: ignore[assignment]
        if not group_id:
            answer(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
            return
        limits = self._limits
        shortest, longest = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            answer(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        shard = self._runtime.find(group_id)
        if isinstance(shard, ErrorCode):
            answer(JoinResult(shard, request.member_id))
            return
        now = read_clock(self._clock)
        if request.member_id and group_id not in shard.groups:
            answer(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        group = shard.get_or_create(group_id, now)
        self._execute(shard, group, group.join(request, now))

    def sync(self, group_id: str, request: SyncRequest) -> None:
        """Calls `request.reply` with a `SyncResult`."""
        answer: Callable[[SyncResult], None] = request.reply  # type: ignore[assignment]
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            answer(SyncResult(found))
            return
        shard, group = found
        self._execute(shard, group, group.sync(request, read_clock(self._clock)))

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Keep a member alive."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        shard, group = found
        error, effects = group.heartbeat(
            member_id, group_instance_id, generation, read_clock(self._clock)
        )
        self._execute(shard, group, effects)
        return error

    def leave(
        self, group_id: str, member_id: str, group_instance_id: str | None
    ) -> tuple[ErrorCode, str]:
        """Remove a member; returns its id, which a static member need not send."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found, member_id
        shard, group = found
        error, left, effects = group.leave(member_id, group_instance_id, read_clock(self._clock))
        self._execute(shard, group, effects)
        return error, left

    def _find(self, group_id: str) -> tuple[GroupShard, ClassicGroup] | ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        shard = self._runtime.find(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else (shard, group)

    # -- offsets ---------------------------------------------------------------------------

    def commit(self, request: CommitRequest, done: ErrorCallback) -> None:
        """Store offsets; `done` gets one code for all of them."""
        shard = self._runtime.find(request.group_id)
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
        self._execute(shard, group, group.touch(request.member_id, read_clock(self._clock)))
        self._runtime.write(
            shard,
            [
                OffsetRecord(request.group_id, topic, partition, value)
                for topic, partition, value in request.offsets
            ],
            done,
        )

    def check_fetch(self, group_id: str) -> ErrorCode:
        """Whether this broker coordinates the group's offsets."""
        shard = self._runtime.find(group_id)
        return shard if isinstance(shard, ErrorCode) else ErrorCode.NONE

    def offsets_of(self, group_id: str) -> dict[tuple[str, int], CommittedOffset]:
        """Everything the group has committed; empty if it is not here."""
        shard = self._runtime.find(group_id)
        return {} if isinstance(shard, ErrorCode) else dict(shard.offsets.of(group_id))

    def delete_offsets(
        self,
        group_id: str,
        places: Iterable[tuple[str, int]],
        done: Callable[[ErrorCode, frozenset[str]], None],
    ) -> None:
        """Remove offsets of topics the group does not read; `done` gets those that it does read."""
        if not group_id:
            done(ErrorCode.INVALID_GROUP_ID, frozenset())
            return
        shard = self._runtime.find(group_id)
        if isinstance(shard, ErrorCode):
            done(shard, frozenset())
            return
        group = shard.groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND, frozenset())
            return
        if len(group.members) and group.protocol_type != CONSUMER:
            done(ErrorCode.NON_EMPTY_GROUP, frozenset())
            return
        asked = list(places)
        subscribed = _subscribed(group, frozenset(topic for topic, _ in asked))
        free = [place for place in asked if place[0] not in subscribed]
        records = shard.offsets.tombstones(group_id, free)
        self._runtime.write(shard, records, lambda error: done(error, subscribed))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Remove what groups have committed for deleted topics."""
        for shard in self._runtime.loaded_shards():
            self._runtime.write(shard, shard.offsets.of_topics(topics), log_failure)

    # -- administration --------------------------------------------------------------------

    def groups(self) -> list[ClassicGroup]:
        """Every group that is loaded here."""
        return [
            group
            for shard in self._runtime.loaded_shards()
            for group in shard.groups.values()
        ]

    def describe(self, group_id: str) -> ClassicGroup | ErrorCode:
        """The group, GROUP_ID_NOT_FOUND, or the coordinator's error."""
        shard = self._runtime.find(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.groups.get(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def delete(self, group_id: str, done: ErrorCallback) -> None:
        """Remove a group without members, with its offsets."""
        shard = self._runtime.find(group_id)
        if isinstance(shard, ErrorCode):
            done(shard)
            return
        group = shard.groups.get(group_id)
        if group is None:
            done(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.state is not GroupState.EMPTY:
            done(ErrorCode.NON_EMPTY_GROUP)
            return

        def stored(error: ErrorCode) -> None:
            if not error:
                self._drop(shard, group_id)
            done(error)

        self._runtime.write(shard, shard.delete_group(group_id), stored)

    def expire(self) -> None:
        """Remove offsets and groups older than `offsets.retention.minutes`."""
        for shard in self._runtime.loaded_shards():
            records, gone = shard.expire(self._clock.now_ms())
            self._runtime.write(shard, records, self._on_expired(shard, gone))

    def _on_expired(self, shard: GroupShard, gone: list[str]) -> ErrorCallback:
        def stored(error: ErrorCode) -> None:
            log_failure(error)
            for group_id in gone if not error else ():
                self._drop(shard, group_id)

        return stored

    def _drop(self, shard: GroupShard, group_id: str) -> None:
        group = shard.groups.pop(group_id, None)
        if group is not None and group.state is GroupState.EMPTY:
            group.fail_all(ErrorCode.GROUP_ID_NOT_FOUND, read_clock(self._clock))

    # -- effects ---------------------------------------------------------------------------

    def _execute(self, shard: GroupShard, group: ClassicGroup, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case ReplyToJoin() | ReplyToSync():
                    effect.reply(effect.result)  # type: ignore[operator]
                case ScheduleTimer():
                    self._schedule_timer(shard, group, effect)
                case PersistGroup():
                    self._persist(shard, group, effect)
                case PersistReplacement():
                    self._persist_replacement(shard, group, effect)

    def _schedule_timer(
        self, shard: GroupShard, group: ClassicGroup, effect: ScheduleTimer
    ) -> None:
        def on_timer() -> None:
            if self._runtime.is_current(shard) and shard.groups.get(group.group_id) is group:
                now = read_clock(self._clock)
                self._execute(shard, group, group.on_timer(effect.kind, effect.subject, now))

        self._timer.add(effect.delay_ms, on_timer)

    def _persist(self, shard: GroupShard, group: ClassicGroup, effect: PersistGroup) -> None:
        def on_stored(error: ErrorCode) -> None:
            now = read_clock(self._clock)
            self._execute(shard, group, group.on_stored(effect.generation, error, now))

        self._runtime.write(shard, [effect.record], on_stored)

    def _persist_replacement(
        self, shard: GroupShard, group: ClassicGroup, effect: PersistReplacement
    ) -> None:
        def on_stored(error: ErrorCode) -> None:
            now = read_clock(self._clock)
            self._execute(shard, group, group.on_replaced(effect.replacement, error, now))

        self._runtime.write(shard, [effect.record], on_stored)


def _subscribed(group: ClassicGroup, topics: frozenset[str]) -> frozenset[str]:
    """Which of `topics` the members of the generation in force read; all, if that is not known."""
    found: frozenset[str] = frozenset()
    for member in group.members:
        own = subscribed_topics(member.metadata(group.protocol_name))
        if own is None:
            return topics
        found |= own
    return topics & found


def log_failure(error: ErrorCode) -> None:
    """No client waits for these tombstones; the next expiry tries again."""
    if error:
        log.warning("tombstones could not be written to __consumer_offsets: %s", error.name)
