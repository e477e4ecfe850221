"""Which groups are here: the partitions of `__consumer_offsets` this broker leads, and their log.

Core: `Shard` (what one partition holds). The shell reads a partition when its leadership comes,
appends records to it, replays them once stored, and carries out what a group's machine asks for.
Never: a rule about groups or offsets beyond which shard they are in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from broker.clock.port import Clock, TaskHandle
from broker.coordinator.appender import Appender, ErrorCallback
from broker.coordinator.clock_reading import read_clock
from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Arm,
    Effect,
    Persist,
    PersistReplacement,
)
from broker.coordinator.group import ClassicGroup
from broker.coordinator.hashing import java_abs, java_hash
from broker.coordinator.records import CoordinatorRecord
from broker.coordinator.shard import GroupLimits, Shard
from broker.log.errors import LogError
from broker.purgatory.timer import Timer
from bus.errors import ErrorCode
from bus.records.batch import RecordsError

log = logging.getLogger("broker.coordinator")

LOAD_AGAIN_S = 1
"""Between two attempts to read a partition: its start may just have moved, or its disk be slow."""


class Leadership:
    """The shards of one broker.

    Invariant: a request that waits in a group is answered when its shard goes.
    """

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
        self._appends: dict[int, dict[int, ErrorCallback]] = {}
        self._ticket = 0

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds this group."""
        return java_abs(java_hash(group_id)) % self._partition_count()

    def lead(self, index: int) -> None:
        """This broker leads the partition now: read it, then serve its groups."""
        if index in self._shards:
            return  # a new epoch of an unbroken leadership changes nothing that is loaded
        shard = self._shards[index] = Shard(index, self._limits)
        if self._appender.is_empty(index):
            shard.finish_loading(read_clock(self._clock))
        else:
            self._loading[index] = self._clock.spawn(self._load(shard), name=f"load-groups-{index}")

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
            effects = group.die(ErrorCode.NOT_COORDINATOR, read_clock(self._clock))
            self._carry_out(shard, group, effects)
        waiting = self._appends.pop(index, {})
        for ticket in list(waiting):
            waiting.pop(ticket)(ErrorCode.NOT_COORDINATOR)

    async def stop(self) -> None:
        """Give everything up; whoever still waits hears that this is no coordinator any more."""
        for index in list(self._shards):
            self.resign(index)

    async def _load(self, shard: Shard) -> None:
        while True:
            try:
                count = await self._read(shard)
                break
            except (LogError, RecordsError) as error:
                # Members are told to wait as long as this lasts: it must not be for ever. What was
                # read is read again, which changes nothing.
                log.error(
                    "__consumer_offsets-%d cannot be read, again in %d s: %s",
                    shard.index,
                    LOAD_AGAIN_S,
                    error,
                )
            await self._clock.sleep(LOAD_AGAIN_S)
        if not self._is_here(shard):
            return
        for group_id, effects in shard.finish_loading(read_clock(self._clock)).items():
            self._carry_out(shard, shard.groups[group_id], effects)
        self._loading.pop(shard.index, None)
        log.info(
            "loaded %d records of %d groups from __consumer_offsets-%d",
            count,
            len(shard.groups),
            shard.index,
        )

    async def _read(self, shard: Shard) -> int:
        """Replay the whole partition; how many records it holds."""
        count = 0
        await self._appender.until_replicated(shard.index)
        async for record in self._appender.read_all(shard.index):
            shard.replay(record)
            count += 1
        return count

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not known yet."""
        return bool(self._loading)

    def _shard(self, group_id: str) -> Shard | ErrorCode:
        shard = self._shards.get(self.partition_of(group_id))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    # -- the log ---------------------------------------------------------------------------

    def _append(
        self, shard: Shard, records: Sequence[CoordinatorRecord], done: ErrorCallback
    ) -> None:
        """Store, then replay, then answer."""
        if not records:
            done(ErrorCode.NONE)
            return

        self._ticket += 1
        ticket, waiting = self._ticket, self._appends.setdefault(shard.index, {})
        waiting[ticket] = done

        def stored(error: ErrorCode) -> None:
            if waiting.pop(ticket, None) is not None:  # else it was told when the shard went
                done(error)

        def committed() -> None:
            if self._is_here(shard):
                for record in records:
                    shard.replay(record)

        self._appender.append(shard.index, records, committed, stored)

    def _is_here(self, shard: Shard) -> bool:
        """Whether we are still in the leadership that the shard was loaded in."""
        return self._shards.get(shard.index) is shard

    # -- effects ---------------------------------------------------------------------------

    def _carry_out(self, shard: Shard, group: ClassicGroup, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AnswerJoin() | AnswerSync():
                    effect.token(effect.result)  # type: ignore[operator]
                case Arm():
                    self._arm(shard, group, effect)
                case Persist():
                    self._persist(shard, group, effect)
                case PersistReplacement():
                    self._persist_replacement(shard, group, effect)

    def _arm(self, shard: Shard, group: ClassicGroup, arm: Arm) -> None:
        def fired() -> None:
            if self._is_here(shard) and shard.groups.get(group.group_id) is group:
                now = read_clock(self._clock)
                self._carry_out(shard, group, group.on_timer(arm.kind, arm.subject, now))

        self._timer.add(arm.delay_ms, fired)

    def _persist(self, shard: Shard, group: ClassicGroup, effect: Persist) -> None:
        def stored(error: ErrorCode) -> None:
            now = read_clock(self._clock)
            self._carry_out(shard, group, group.on_stored(effect.generation, error, now))

        self._append(shard, [effect.record], stored)

    def _persist_replacement(
        self, shard: Shard, group: ClassicGroup, effect: PersistReplacement
    ) -> None:
        def stored(error: ErrorCode) -> None:
            now = read_clock(self._clock)
            self._carry_out(shard, group, group.on_replaced(effect.replacement, error, now))

        self._append(shard, [effect.record], stored)
