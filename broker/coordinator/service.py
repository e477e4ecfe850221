"""The group coordinator's shell: finds the shard, runs the machine, carries out its effects.

Core: `ClassicGroup` (membership) and `OffsetTable` (offsets). The shell appends their records to
`__consumer_offsets`, replays them once stored, arms timers and hands answers back.
Never: a rule about groups or offsets beyond which shard they are in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from broker.clock.port import Clock, TaskHandle
from broker.coordinator.appender import Appender, ErrorCallback
from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Arm,
    Effect,
    JoinRequest,
    JoinResult,
    Persist,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group import ClassicGroup
from broker.coordinator.records import CommittedOffset, CoordinatorRecord, OffsetRecord
from broker.coordinator.shard import GroupLimits, Shard, group_subscription
from broker.coordinator.states import GroupState
from broker.log.errors import LogError
from broker.purgatory.timer import Timer
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


class GroupCoordinator:
    """All groups whose partition of `__consumer_offsets` this broker leads."""

    def __init__(
        self,
        *,
        appender: Appender,
        timer: Timer,
        clock: Clock,
        limits: GroupLimits,
        partition_count: Callable[[], int],
    ) -> None:
        self._appender = appender
        self._timer = timer
        self._clock = clock
        self._limits = limits
        self._partition_count = partition_count
        self._shards: dict[int, Shard] = {}
        self._loading: dict[int, TaskHandle] = {}

    # -- shards -----------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds this group."""
        return java_abs(java_hash(group_id)) % self._partition_count()

    def lead(self, index: int) -> None:
        """This broker leads the partition now: read it, then serve its groups."""
        if index in self._shards:
            return  # a new epoch of an unbroken leadership changes nothing that is loaded
        shard = self._shards[index] = Shard(index, self._limits)
        if self._appender.is_empty(index):
            shard.finish_loading(self._clock.now_ms())
        else:
            self._loading[index] = self._clock.spawn(
                self._load(shard), name=f"load-groups-{index}"
            )

    def resign(self, index: int) -> None:
        """Another broker leads the partition, or it is gone."""
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        shard = self._shards.pop(index, None)
        if shard is None:
            return
        # Timers and late answers of the log find no group any more; the next coordinator arms its
        # own, and a session that ran out here is none of its business.
        groups, shard.groups = shard.groups, {}
        for group in groups.values():
            effects = group.die(ErrorCode.NOT_COORDINATOR, self._clock.now_ms())
            self._carry_out(shard, group, effects)

    async def stop(self) -> None:
        """End loading; waiting members see their connections close."""
        for task in self._loading.values():
            task.cancel()

    async def _load(self, shard: Shard) -> None:
        count = 0
        try:
            await self._appender.until_replicated(shard.index)
            async for record in self._appender.read_all(shard.index):
                shard.replay(record)
                count += 1
        except LogError as error:
            log.error("__consumer_offsets-%d cannot be read: %s", shard.index, error)
            return
        if self._shards.get(shard.index) is not shard:
            return
        for group_id, effects in shard.finish_loading(self._clock.now_ms()).items():
            self._carry_out(shard, shard.groups[group_id], effects)
        self._loading.pop(shard.index, None)
        log.info(
            "loaded %d records of %d groups from __consumer_offsets-%d",
            count, len(shard.groups), shard.index,
        )

    def _shard(self, group_id: str) -> Shard | ErrorCode:
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # -- membership -------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> None:
        """Answered through `request.token`, called with a `JoinResult`."""
        answer: Callable[[JoinResult], None] = request.token  # type: ignore[assignment]
        if not group_id:
            answer(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
            return
        limits = self._limits
        shortest, longest = limits.min_session_timeout_ms, limits.max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            answer(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            answer(JoinResult(shard, request.member_id))
            return
        now_ms = self._clock.now_ms()
        if request.member_id and group_id not in shard.groups:
            answer(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        group = shard.get_or_create(group_id, now_ms)
        self._carry_out(shard, group, group.join(request, now_ms))

    def sync(self, group_id: str, request: SyncRequest) -> None:
        """Answered through `request.token`, called with a `SyncResult`."""
        answer: Callable[[SyncResult], None] = request.token  # type: ignore[assignment]
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            answer(SyncResult(found))
            return
        shard, group = found
        self._carry_out(shard, group, group.sync(request, self._clock.now_ms()))

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """A member lives."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        shard, group = found
        error, effects = group.heartbeat(
            member_id, group_instance_id, generation, self._clock.now_ms()
        )
        self._carry_out(shard, group, effects)
        return error

    def leave(
        self, group_id: str, member_id: str, group_instance_id: str | None
    ) -> tuple[ErrorCode, str]:
        """A member goes; its id, which a static member need not have named."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found, member_id
        shard, group = found
        error, left, effects = group.leave(member_id, group_instance_id, self._clock.now_ms())
        self._carry_out(shard, group, effects)
        return error, left

    def _find(self, group_id: str) -> tuple[Shard, ClassicGroup] | ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else (shard, group)

    # -- offsets ----------------------------------------------------------------------

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

    # -- administration ---------------------------------------------------------------

    def groups(self) -> list[ClassicGroup]:
        """Every group that is loaded here."""
        return [
            group
            for shard in self._shards.values()
            if shard.loaded
            for group in shard.groups.values()
        ]

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not known yet."""
        return bool(self._loading)

    def describe(self, group_id: str) -> ClassicGroup | ErrorCode:
        """The group, GROUP_ID_NOT_FOUND, or why this coordinator cannot say."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return shard.groups.get(group_id) or ErrorCode.GROUP_ID_NOT_FOUND

    def delete(self, group_id: str, done: ErrorCallback) -> None:
        """Remove a group without members, with its offsets."""
        shard = self._shard(group_id)
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

        self._append(shard, shard.deletion(group_id), stored)

    def expire(self) -> None:
        """Remove what has outlived `offsets.retention.minutes`."""
        for shard in list(self._shards.values()):
            if not shard.loaded:
                continue
            records, gone = shard.expiry(self._clock.now_ms())
            self._append(shard, records, self._dropper(shard, gone))

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Topics are gone; so is what groups had committed for them."""
        for shard in list(self._shards.values()):
            if shard.loaded:
                self._append(shard, shard.offsets.of_topics(topics), _log_failure)

    def _dropper(self, shard: Shard, gone: list[str]) -> ErrorCallback:
        def stored(error: ErrorCode) -> None:
            _log_failure(error)
            for group_id in gone if not error else ():
                self._drop(shard, group_id)

        return stored

    def _drop(self, shard: Shard, group_id: str) -> None:
        group = shard.groups.pop(group_id, None)
        if group is not None and group.state is GroupState.EMPTY:
            group.die(ErrorCode.GROUP_ID_NOT_FOUND, self._clock.now_ms())

    # -- effects ----------------------------------------------------------------------

    def _carry_out(self, shard: Shard, group: ClassicGroup, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AnswerJoin() | AnswerSync():
                    effect.token(effect.result)  # type: ignore[operator]
                case Arm():
                    self._arm(shard, group, effect)
                case Persist():
                    self._persist(shard, group, effect)

    def _arm(self, shard: Shard, group: ClassicGroup, arm: Arm) -> None:
        def fired() -> None:
            if self._is_here(shard) and shard.groups.get(group.group_id) is group:
                now_ms = self._clock.now_ms()
                self._carry_out(shard, group, group.on_timer(arm.kind, arm.subject, now_ms))

        self._timer.add(arm.delay_ms, fired)

    def _persist(self, shard: Shard, group: ClassicGroup, effect: Persist) -> None:
        def stored(error: ErrorCode) -> None:
            now_ms = self._clock.now_ms()
            self._carry_out(shard, group, group.on_stored(effect.generation, error, now_ms))

        self._append(shard, [effect.record], stored)

    def _append(
        self, shard: Shard, records: Sequence[CoordinatorRecord], done: ErrorCallback
    ) -> None:
        """Store, then replay, then answer."""
        if not records:
            done(ErrorCode.NONE)
            return

        def stored(error: ErrorCode) -> None:
            done(error if self._is_here(shard) else ErrorCode.NOT_COORDINATOR)

        def committed() -> None:
            if self._is_here(shard):
                for record in records:
                    shard.replay(record)

        self._appender.append(shard.index, records, committed, stored)

    def _is_here(self, shard: Shard) -> bool:
        """Whether we are still in the leadership that the shard was loaded in."""
        return self._shards.get(shard.index) is shard


def _log_failure(error: ErrorCode) -> None:
    if error:
        log.warning("tombstones could not be written to __consumer_offsets: %s", error.name)


def java_hash(text: str) -> int:
    """Java's String.hashCode, by which Kafka spreads groups over partitions."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def java_abs(value: int) -> int:
    """Kafka's Utils.abs: the smallest int has no positive twin and becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)
