"""Moves replicas between this broker's log directories (AlterReplicaLogDirs, KIP-113).

Core: `move_steps` (what comes next). In: the target directory of each replica. Out: future logs
that grow by a bounded piece per loop iteration, and replace the current ones when they have caught
up. Never: a replica without a whole log; a move that a throttle or a full disk turns into a failure
of the partition.

One replica moves at a time, in the order of the requests: that ends each move soonest.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Protocol

from broker.clock.port import Clock, monotonic_ms
from broker.clock.tasks import OnDemandTask
from broker.disk.port import WouldBlock
from broker.log.checkpoint import TopicPartition
from broker.log.errors import LogError, is_disk_full
from broker.log.future_logs import name_fits
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from broker.log.segments import PendingTruncation
from broker.quotas.replication_quota import ReplicationQuota
from broker.replica.logdir.move_steps import StepKind, next_step
from broker.replica.partition import Partition
from bus.errors import ErrorCode

log = logging.getLogger("broker.replica")

ITERATION_BYTES = 256 << 10
"""Copied per loop iteration, a millisecond or two; a larger batch is copied as a whole."""

FLUSH_EVERY_BYTES = 64 << 20
"""Copied between two flushes; a start after a crash has at most this to check."""

MAX_UNFLUSHED_BYTES = 1 << 20
"""At most this may be unflushed when the log is replaced; the replaced log stays until that is on
the device too."""

MAX_LAST_FLUSHES = 5
"""After so many flushes the log is replaced with any amount unflushed (heavy load)."""

THROTTLE_WAIT_S = 0.1
"""Between two checks of an exhausted throttle."""


class LogDirMoverHost(Protocol):
    """What moves need of their replica manager."""

    def get(self, topic: str, index: int) -> Partition: ...
    def take_offline(self, directory: str, error: LogError) -> None: ...
    def on_log_error(self, partition: Partition, error: LogError, /) -> None: ...

    @property
    def offline_dirs(self) -> tuple[bytes, ...]: ...

    def on_log_dir_changed(self, partition: Partition, /) -> None:
        """The partition's log is in another directory now."""


@dataclass(slots=True)
class LogDirMove:
    """A replica being moved. ``unflushed``: bytes copied since the last flush. ``truncations`` of
    the future log are made durable before anything is copied."""

    partition: Partition
    future: Log
    unflushed: int = 0
    last_flushes: int = 0
    truncations: list[PendingTruncation] = field(default_factory=list)

    @property
    def target(self) -> str:
        """The directory it moves to."""
        return parent_of(self.future)


class LogDirMover:
    """Invariant: a move's future log is the one the log manager has for its partition."""

    def __init__(
        self, logs: LogManager, clock: Clock, quota: ReplicationQuota, host: LogDirMoverHost
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._quota = quota
        self._host = host
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._is_retiring = False
        self._task = OnDemandTask(clock, "move-log-dirs", self._run)

    def __len__(self) -> int:
        return len(self._moves) + self._is_retiring

    # --- requests --------------------------------------------------------------------------------

    def alter(self, topic: str, index: int, directory: str) -> None:
        """Move the replica to ``directory``; LogError if that is not possible.

        UNKNOWN_TOPIC_OR_PARTITION: it is not here; if it comes, it is created there.
        """
        self._check(topic, index, directory)
        key = (topic, index)
        try:
            partition = self._host.get(topic, index)
        except LogError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._logs.future_logs.prefer_dir(key, directory)
            raise
        move = self._moves.get(key)
        if move is not None and move.target != directory:
            self._abort(move, f"{directory} is requested instead")
            move = None
        if move is not None or parent_of(partition.log) == directory:
            return
        if self._host.offline_dirs:  # one of them may hold a future log of this very partition
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is offline")
        future = self._create_future(partition.log, directory)
        self._logs.checkpoints.write()  # no offset of an older log of that name remains
        self._logs.checkpoints.block_until_written(future)
        log.info("%s moves to %s", partition.log.directory, directory)
        self._begin(LogDirMove(partition, future))

    def _create_future(self, current: Log, directory: str) -> Log:
        try:
            return self._logs.future_logs.create(current, directory)
        except LogError as error:
            if not is_disk_full(error):
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

    def resume(self, partition: Partition) -> None:
        """The partition was created here; continue a move that an earlier process began."""
        future = self._logs.future_logs.get(partition.key)
        if future is None:
            return
        try:
            unflushed = future.readable_bytes(future.recovery_point, future.end_offset)
        except LogError:
            unflushed = FLUSH_EVERY_BYTES  # its first flush or copy reports the error
        move = LogDirMove(partition, future, unflushed)
        if parent_of(partition.log) == move.target or future.topic_id != partition.topic_id:
            self._abort(move, "it is of no use any more")
        else:
            self._begin(move)

    def _begin(self, move: LogDirMove) -> None:
        self._moves[move.partition.key] = move
        self._task.ensure_running()

    # --- events of partitions and directories ----------------------------------------------------

    def end(self, partition: Partition) -> None:
        """The partition is no longer served here; its logs are handled elsewhere."""
        self._moves.pop(partition.key, None)

    def on_truncated(self, partition: Partition) -> None:
        """Truncate the future log as the current one was truncated."""
        move = self._moves.get(partition.key)
        if move is not None and move.future.end_offset > partition.log.end_offset:
            self._truncate(move, StepKind.TRUNCATE, partition.log.end_offset)

    def on_directory_failed(self, directory: str) -> None:
        """A directory has failed: end the moves to it."""
        for key, move in list(self._moves.items()):
            if move.target == directory:
                log.error("%s: its move has ended, the target has failed",
                          move.partition.log.directory)  # fmt: skip
                del self._moves[key]

    def owns(self, partition_log: Log) -> bool:
        """Whether it is the future log of a replica being moved."""
        move = self._moves.get((partition_log.topic, partition_log.index))
        return move is not None and move.future is partition_log

    def _is_current(self, move: LogDirMove) -> bool:
        return self._moves.get(move.partition.key) is move

    def on_disk_error(self, future: Log, error: LogError) -> None:
        """A flush of a future log has failed."""
        self._target_failed(self._moves[future.topic, future.index], error)

    async def stop(self) -> None:
        """Stop copying; the next process resumes the moves."""
        await self._task.stop()

    # --- the work --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._moves:
            if self._quota.is_exceeded(monotonic_ms(self._clock)):
                await self._clock.sleep(THROTTLE_WAIT_S)
                continue
            await self._advance(next(iter(self._moves.values())))
            await self._clock.sleep(0)

    async def _advance(self, move: LogDirMove) -> None:
        if move.truncations:
            await self._finish_truncation(move)
            return
        if move.future.guard.is_blocked:
            await self._logs.checkpoint_writer.until_written(move.target)
            return
        step = next_step(move.partition.log, move.future)
        if step.kind is StepKind.COPY:
            try:
                self._copy(move)
            except WouldBlock as waiting:
                await self._logs.cold_reads.until_read(waiting)
            if move.unflushed >= FLUSH_EVERY_BYTES:
                await self._flush(move)
        elif step.kind is not StepKind.REPLACE:
            self._truncate(move, step.kind, step.offset)
        elif self._is_flushed(move):
            await self._replace(move)
        else:
            move.last_flushes += 1
            await self._flush(move)

    def _is_flushed(self, move: LogDirMove) -> bool:
        return move.unflushed <= MAX_UNFLUSHED_BYTES or move.last_flushes >= MAX_LAST_FLUSHES

    async def _flush(self, move: LogDirMove) -> None:
        before = move.unflushed
        await self._logs.flush(move.future)
        move.unflushed -= before

    def _copy(self, move: LogDirMove) -> None:
        current, future = move.partition.log, move.future
        try:
            data = current.read(future.end_offset, ITERATION_BYTES, min_one=True, waits=False).data
        except LogError as error:
            self._host.on_log_error(move.partition, error)
            if self._is_current(move):  # otherwise its directory is offline, and its files stay
                self._abort(move, f"the log cannot be read: {error}")
            return
        try:
            info = future.append_as_follower(data, self._clock.now_ms())
        except LogError as error:
            self._target_failed(move, error)
            return
        future.advance_high_watermark(min(current.high_watermark, future.end_offset))
        if current.log_start_offset > future.log_start_offset:
            future.advance_log_start_offset(min(current.log_start_offset, future.end_offset))
        move.unflushed += info.size_bytes
        self._quota.record(info.size_bytes, monotonic_ms(self._clock))

    def _truncate(self, move: LogDirMove, kind: StepKind, offset: int) -> None:
        future, now_ms = move.future, self._clock.now_ms()
        try:
            if kind is StepKind.TRUNCATE:
                truncation = future.begin_truncate_to(offset, now_ms)
            else:
                truncation = future.begin_truncate_fully(offset, now_ms)
        except LogError as error:
            self._target_failed(move, error)
        else:
            move.truncations.append(truncation)
            self._logs.checkpoints.write()  # nothing above the truncation is flushed any more

    async def _finish_truncation(self, move: LogDirMove) -> None:
        try:
            await self._logs.finish_truncation(move.future, move.truncations[0])
        except LogError as error:
            if self._is_current(move):
                self._target_failed(move, error)
        else:
            del move.truncations[0]

    async def _replace(self, move: LogDirMove) -> None:
        partition, replaced = move.partition, move.partition.log
        try:
            fresh = self._logs.promote(replaced)
        except LogError as error:
            self._target_failed(move, error)
            return
        del self._moves[partition.key]
        partition.log = fresh
        log.info("%s has moved to %s", replaced.directory, fresh.directory)
        self._host.on_log_dir_changed(partition)
        self._is_retiring = True
        try:
            await self._logs.retire(replaced, fresh)
        except LogError as error:
            self._host.take_offline(parent_of(replaced), error)
        finally:
            self._is_retiring = False

    # --- failures --------------------------------------------------------------------------------

    def _target_failed(self, move: LogDirMove, error: LogError) -> None:
        """A full disk ends the move, any other disk error takes its directory offline."""
        is_disk = error.code is ErrorCode.KAFKA_STORAGE_ERROR
        if is_disk and not is_disk_full(error):
            self._host.take_offline(move.target, error)
        else:
            self._abort(move, str(error))

    def _abort(self, move: LogDirMove, why: str) -> None:
        log.warning("%s does not move to %s: %s", move.partition.log.directory, move.target, why)
        self._moves.pop(move.partition.key, None)
        try:
            self._logs.future_logs.drop(move.partition.key)
        except LogError as error:
            self._host.take_offline(move.target, error)
