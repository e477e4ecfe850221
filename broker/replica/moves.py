"""Moves of replicas between this broker's log directories (AlterReplicaLogDirs, KIP-113).

Core: `move_steps` (what comes next). In: which replica is to lie where. Out: future logs that grow
a bounded piece per turn, and replace the current ones when they have all of them. Never: a replica
without a whole log; a move that a throttle or a full disk turns into a failure of the partition.

One replica moves at a time, in the order of the wishes: that ends each of them soonest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Protocol

from broker.clock.port import Clock, monotonic_ms
from broker.clock.tasks import Errand
from broker.disk.port import WouldWait
from broker.log.checkpoint import TopicPartition
from broker.log.cut import Cut
from broker.log.errors import LogError, found_no_room
from broker.log.futures import name_fits
from broker.log.log import Log
from broker.log.manager import LogManager, parent_of
from broker.replica.move_steps import StepKind, next_step
from broker.replica.partition import Partition
from broker.replica.throttle import ReplicationQuota
from bus.errors import ErrorCode

log = logging.getLogger("broker.replica")

TURN_BYTES = 256 << 10
"""Copied in one turn of the loop, a millisecond or two; a larger batch is copied as a whole."""

FLUSH_EVERY_BYTES = 64 << 20
"""Copied between two flushes, so that no start after a crash has more of it to check."""

LEFT_TO_FLUSH_BYTES = 1 << 20
"""So little may be unflushed when the log is replaced; the log that is replaced stays until that is
on the device too."""

MOST_LAST_FLUSHES = 5
"""Under more load than that the log is replaced, however much of it is unflushed."""

THROTTLE_REST_S = 0.1
"""Between two looks at a throttle that is used up."""


class MoveHost(Protocol):
    """What moves need of their replica manager."""

    def get(self, topic: str, index: int) -> Partition: ...
    def take_offline(self, directory: str, error: LogError) -> None: ...
    def failed(self, partition: Partition, error: LogError, /) -> None: ...

    @property
    def offline_dirs(self) -> tuple[bytes, ...]: ...

    def lies_elsewhere(self, partition: Partition, /) -> None:
        """The partition's log is in another directory from now on."""


@dataclass(slots=True)
class Move:
    """One replica on the move. ``unflushed``: bytes copied since the last flush. ``cuts`` of the
    future log are to be made durable before anything is copied."""

    partition: Partition
    future: Log
    unflushed: int = 0
    last_flushes: int = 0
    cuts: list[Cut] = field(default_factory=list)

    @property
    def target(self) -> str:
        """The directory it moves to."""
        return parent_of(self.future)


class Moves:
    """Invariant: a move's future log is the one the log manager has for its partition."""

    def __init__(
        self, logs: LogManager, clock: Clock, quota: ReplicationQuota, host: MoveHost
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._quota = quota
        self._host = host
        self._moves: dict[TopicPartition, Move] = {}
        self._is_retiring = False
        self._errand = Errand(clock, "move-log-dirs", self._run)

    def __len__(self) -> int:
        return len(self._moves) + self._is_retiring

    # --- what is wished --------------------------------------------------------------------------

    def alter(self, topic: str, index: int, directory: str) -> None:
        """Have the replica lie in ``directory``; LogError if it cannot.

        UNKNOWN_TOPIC_OR_PARTITION: it is not here; should it come, it is made there.
        """
        self._check(topic, index, directory)
        key = (topic, index)
        try:
            partition = self._host.get(topic, index)
        except LogError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._logs.futures.wish(key, directory)
            raise
        move = self._moves.get(key)
        if move is not None and move.target != directory:
            self._give_up(move, f"{directory} is wished instead")
            move = None
        if move is not None or parent_of(partition.log) == directory:
            return
        if self._host.offline_dirs:  # one of them may hold a future log of this very partition
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is offline")
        future = self._make(partition.log, directory)
        self._logs.write_checkpoints()  # whatever an older log of that name was vouched for
        self._logs.hold_until_checkpointed(future)
        log.info("%s moves to %s", partition.log.directory, directory)
        self._begin(Move(partition, future))

    def _make(self, current: Log, directory: str) -> Log:
        try:
            return self._logs.futures.make(current, directory)
        except LogError as error:
            if not found_no_room(error):
                self._host.take_offline(directory, error)
            raise

    def _check(self, topic: str, index: int, directory: str) -> None:
        if not name_fits(topic, index):
            raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic's name is too long")
        if directory not in self._logs.directories:
            raise LogError(ErrorCode.LOG_DIR_NOT_FOUND, directory)
        if not self._logs.is_usable(directory):
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} is offline")
        if directory in self._logs.config.cordoned_log_dirs:
            raise LogError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{directory} is cordoned")

    def take_up(self, partition: Partition) -> None:
        """The partition is here; a move that an earlier life began goes on."""
        future = self._logs.futures.get(partition.key)
        if future is None:
            return
        try:
            unflushed = future.readable_bytes(future.recovery_point, future.end_offset)
        except LogError:
            unflushed = FLUSH_EVERY_BYTES  # its first flush or copy says what is wrong
        move = Move(partition, future, unflushed)
        if parent_of(partition.log) == move.target or future.topic_id != partition.topic_id:
            self._give_up(move, "it is of no use any more")
        else:
            self._begin(move)

    def _begin(self, move: Move) -> None:
        self._moves[move.partition.key] = move
        self._errand.begin()

    # --- what happens to partitions and directories ----------------------------------------------

    def end(self, partition: Partition) -> None:
        """The partition is served here no more; what becomes of its logs is said by others."""
        self._moves.pop(partition.key, None)

    def on_truncated(self, partition: Partition) -> None:
        """What was cut off the current log has no place in the future one."""
        move = self._moves.get(partition.key)
        if move is not None and move.future.end_offset > partition.log.end_offset:
            self._shorten(move, StepKind.CUT, partition.log.end_offset)

    def lost(self, directory: str) -> None:
        """A directory has failed; moves to it have ended."""
        for key, move in list(self._moves.items()):
            if move.target == directory:
                log.error("%s moves no more: its target has failed", move.partition.log.directory)
                del self._moves[key]

    def owns(self, partition_log: Log) -> bool:
        """Whether it is the future log of a replica on the move."""
        move = self._moves.get((partition_log.topic, partition_log.index))
        return move is not None and move.future is partition_log

    def _is_on(self, move: Move) -> bool:
        return self._moves.get(move.partition.key) is move

    def on_disk_error(self, future: Log, error: LogError) -> None:
        """A flush of a future log has failed."""
        self._target_failed(self._moves[future.topic, future.index], error)

    async def stop(self) -> None:
        """Copy no more; what there is is taken up by the next life."""
        await self._errand.stop()

    # --- the work --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._moves:
            if self._quota.is_exceeded(monotonic_ms(self._clock)):
                await self._clock.sleep(THROTTLE_REST_S)
                continue
            await self._advance(next(iter(self._moves.values())))
            await self._clock.sleep(0)

    async def _advance(self, move: Move) -> None:
        if move.cuts:
            await self._settle(move)
            return
        if move.future.is_blocked:
            await self._logs.checkpoints.until_written(move.target)
            return
        step = next_step(move.partition.log, move.future)
        if step.kind is StepKind.COPY:
            try:
                self._copy(move)
            except WouldWait as waiting:
                await self._logs.cold_reads.until_read(waiting)
            if move.unflushed >= FLUSH_EVERY_BYTES:
                await self._flush(move)
        elif step.kind is not StepKind.REPLACE:
            self._shorten(move, step.kind, step.offset)
        elif self._is_flushed(move):
            await self._replace(move)
        else:
            move.last_flushes += 1
            await self._flush(move)

    def _is_flushed(self, move: Move) -> bool:
        return move.unflushed <= LEFT_TO_FLUSH_BYTES or move.last_flushes >= MOST_LAST_FLUSHES

    async def _flush(self, move: Move) -> None:
        before = move.unflushed
        await self._logs.flush(move.future)
        move.unflushed -= before

    def _copy(self, move: Move) -> None:
        current, future = move.partition.log, move.future
        try:
            data = current.read(future.end_offset, TURN_BYTES, min_one=True, waits=False).data
        except LogError as error:
            self._host.failed(move.partition, error)
            if self._is_on(move):  # else its directory is offline, and what there is stays
                self._give_up(move, f"the log cannot be read: {error}")
            return
        try:
            info = future.append_as_follower(data, self._clock.now_ms())
        except LogError as error:
            self._target_failed(move, error)
            return
        future.advance_high_watermark(min(current.high_watermark, future.end_offset))
        if current.log_start_offset > future.log_start_offset:
            future.raise_start(min(current.log_start_offset, future.end_offset))
        move.unflushed += info.size_bytes
        self._quota.record(info.size_bytes, monotonic_ms(self._clock))

    def _shorten(self, move: Move, kind: StepKind, offset: int) -> None:
        future, now_ms = move.future, self._clock.now_ms()
        try:
            if kind is StepKind.CUT:
                cut = future.cut_to(offset, now_ms)
            else:
                cut = future.cut_fully(offset, now_ms)
        except LogError as error:
            self._target_failed(move, error)
        else:
            move.cuts.append(cut)
            self._logs.write_checkpoints()  # above the cut nothing is flushed any more

    async def _settle(self, move: Move) -> None:
        try:
            await self._logs.settle(move.future, move.cuts[0])
        except LogError as error:
            if self._is_on(move):
                self._target_failed(move, error)
        else:
            del move.cuts[0]

    async def _replace(self, move: Move) -> None:
        partition, replaced = move.partition, move.partition.log
        try:
            fresh = self._logs.promote(replaced)
        except LogError as error:
            self._target_failed(move, error)
            return
        del self._moves[partition.key]
        partition.log = fresh
        log.info("%s has moved to %s", replaced.directory, fresh.directory)
        self._host.lies_elsewhere(partition)
        self._is_retiring = True
        try:
            await self._logs.retire(replaced, fresh)
        except LogError as error:
            self._host.take_offline(parent_of(replaced), error)
        finally:
            self._is_retiring = False

    # --- what goes wrong -------------------------------------------------------------------------

    def _target_failed(self, move: Move, error: LogError) -> None:
        """A full disk ends the move, any other error of the disk its directory."""
        is_disk = error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if is_disk and not found_no_room(error):
            self._host.take_offline(move.target, error)
        else:
            self._give_up(move, str(error))

    def _give_up(self, move: Move, why: str) -> None:
        log.warning("%s does not move to %s: %s", move.partition.log.directory, move.target, why)
        self._moves.pop(move.partition.key, None)
        try:
            self._logs.futures.drop(move.partition.key)
        except LogError as error:
            self._host.take_offline(move.target, error)
