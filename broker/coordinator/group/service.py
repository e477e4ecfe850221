"""The group coordinator: serves what members and administrators request of groups and offsets.

Core: `ClassicGroup` and `GroupShard`. Shell: finds a group's shard, runs the group's state machine
and executes its effects. Never: a rule about groups; a group itself decides whether a commit is
allowed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

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
from broker.coordinator.group.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
)
from broker.coordinator.group.shard import (
    CONSUMER,
    MOST_NAMES_BYTES,
    MOST_TOMBSTONES,
    GroupLimits,
    GroupShard,
    names_bytes_of,
)
from broker.coordinator.group.states import GroupState
from broker.coordinator.group.subscription import subscribed_topics
from broker.coordinator.partition_writer import ErrorCallback, PartitionWriter
from broker.coordinator.runtime import CoordinatorRuntime
from broker.purgatory.timer import Timer
from bus.errors import ErrorCode

log = logging.getLogger("broker.coordinator")

GROUPS_PER_PIECE = 200
"""Started after a load, or looked at for expiry, between two moments of other work: one to two
milliseconds."""


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
        self._deleted_while_loading: dict[int, frozenset[str]] = {}
        self._runtime: CoordinatorRuntime[CoordinatorRecord, GroupShard] = CoordinatorRuntime(
            writer=writer,
            clock=clock,
            partition_count=partition_count,
            new_shard=lambda index: GroupShard(index, limits),
            on_loaded=self._start,
            on_unloaded=self._fail_all,
            on_settled=self._know_groups,
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

    def _start(self, shard: GroupShard) -> Iterator[None]:
        started = shard.finish_loading(read_clock(self._clock))
        for number, (group, effects) in enumerate(started):
            self._execute(shard, group, effects)
            if number % GROUPS_PER_PIECE == GROUPS_PER_PIECE - 1:
                yield
        gone = self._deleted_while_loading.pop(shard.index, frozenset())
        self._forget_topics(shard, gone)

    def _know_groups(self, shard: GroupShard, records: Sequence[CoordinatorRecord]) -> None:
        """A group may be known by what a transaction has committed for it, and nothing else."""
        for record in records:
            if record.value is not None:
                shard.get_or_create(record.group_id, read_clock(self._clock))

    def _fail_all(self, shard: GroupShard) -> None:
        self._deleted_while_loading.pop(shard.index, None)
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
        places = [(topic, partition) for topic, partition, _ in request.offsets]
        records = [
            OffsetRecord(request.group_id, topic, partition, value)
            for topic, partition, value in request.offsets
        ]

        def written(code: ErrorCode) -> None:
            shard.offsets.end_commit(request.group_id, places)
            done(code)

        shard.offsets.begin_commit(request.group_id, places)
        self._runtime.write(shard, records, written)

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
        records = list(shard.offsets.tombstones(group_id, free))
        self._runtime.write(shard, records, lambda error: done(error, subscribed))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Remove what groups have committed for deleted topics; where these are being loaded, once
        they are."""
        for shard in self._runtime.shards():
            if shard.loaded:
                self._forget_topics(shard, topics)
            else:
                others = self._deleted_while_loading.get(shard.index, frozenset())
                self._deleted_while_loading[shard.index] = others | topics

    def _forget_topics(self, shard: GroupShard, topics: frozenset[str]) -> None:
        if topics:
            self._runtime.write_in_turns(shard, lambda: shard.forget_topics(topics), log_failure)

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

        def records() -> list[CoordinatorRecord]:
            is_empty = group.state is GroupState.EMPTY  # still, though some may be removed already
            return shard.delete_group(group_id) if is_empty else []

        def stored(error: ErrorCode) -> None:
            if not error:
                self._drop(shard, group_id)
            is_used = group.state not in (GroupState.EMPTY, GroupState.DEAD)
            done(error or (ErrorCode.NON_EMPTY_GROUP if is_used else ErrorCode.NONE))

        self._runtime.write_in_turns(shard, records, stored, is_last=_removes_group)

    async def expire(self) -> None:
        """Remove offsets and groups older than `offsets.retention.minutes`, in pieces. What a piece
        removes is decided when it is written: a member may commit in between."""
        for shard in self._runtime.loaded_shards():
            waiting = list(shard.groups.values())
            while waiting and self._runtime.is_current(shard):
                records, gone = self._expire_some(shard, waiting)
                error = await self._written(shard, records)
                if error:
                    log_failure(error)
                    break
                for group_id in gone:
                    self._drop(shard, group_id)

    def _expire_some(
        self, shard: GroupShard, waiting: list[ClassicGroup]
    ) -> tuple[list[CoordinatorRecord], list[str]]:
        """One piece: its records, and the groups that are gone with them. What is done with leaves
        `waiting`."""
        records: list[CoordinatorRecord] = []
        gone: list[str] = []
        names_bytes = 0
        for _ in range(GROUPS_PER_PIECE):
            if not waiting:
                break
            removal = shard.expire(waiting[-1], self._clock.now_ms())
            names_bytes += names_bytes_of(removal.records)
            count = len(records) + len(removal.records)
            if records and (count > MOST_TOMBSTONES or names_bytes > MOST_NAMES_BYTES):
                break
            records += removal.records
            if not removal.is_whole:
                break
            group = waiting.pop()
            gone += [group.group_id] if removal.is_of_group else []
        return records, gone

    async def _written(
        self, shard: GroupShard, records: list[CoordinatorRecord]
    ) -> ErrorCode:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._runtime.write(shard, records, done.set_result)
        await self._clock.sleep(0)
        return await done

    def _drop(self, shard: GroupShard, group_id: str) -> None:
        """Its tombstones are stored. It stays if a member has joined since, or committed."""
        group = shard.groups.get(group_id)
        if group is None or group.state is not GroupState.EMPTY or shard.offsets.of(group_id):
            return
        del shard.groups[group_id]
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


def _removes_group(records: Sequence[CoordinatorRecord]) -> bool:
    return isinstance(records[-1], GroupRecord)


def log_failure(error: ErrorCode) -> None:
    """No client waits for these tombstones; the next expiry tries again."""
    if error:
        log.warning("tombstones could not be written to __consumer_offsets: %s", error.name)
