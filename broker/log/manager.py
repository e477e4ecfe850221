"""All logs of a broker: opening, creating, deleting, and the work that goes on behind them.

In: configuration, ports, topics and partitions. Out: ``Log`` objects. Never: leadership or
metadata; which partitions ought to exist is told by the replica manager.

``prepare`` takes the directories, ``load`` opens what is there, ``start`` begins the background
work (retention, flushing, checkpoints, removal of deleted files), ``stop`` ends it in order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import end
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.background import Background
from broker.log.checkpoint import (
    TopicPartition,
    read_smaller_offsets,
)
from broker.log.checkpoints import Checkpoints
from broker.log.cold_reads import ColdReads
from broker.log.cut import Cut, force_cut
from broker.log.directories import (
    KRAFT_VERSION,
    METADATA_DIRECTORY,
    UNKNOWN_BROKER_EPOCH,
    leave_clean_shutdown,
    take_clean_shutdown,
)
from broker.log.errors import LogError, found_no_room, is_of_the_device, storage_error
from broker.log.files import FUTURE_SUFFIX, FilePool, is_partition, parse_directory
from broker.log.futures import Futures, newer_of
from broker.log.log import Log
from broker.log.log_dirs import LogDirs
from broker.log.partition_metadata import (
    TopicIdInDoubt,
    read_topic_id,
    read_vouched,
    write_topic_id,
)
from broker.log.scrub import Scrub
from broker.log.strays import SUFFIX as STRAY_SUFFIX
from broker.log.unusable import Unusable
from broker.log.volumes import Volumes
from bus.errors import ErrorCode

log = logging.getLogger("broker.log")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
DELETE_SUFFIX = "-delete"


class LogManager:
    """The logs of one broker. Invariant: a log stands in exactly one of the log directories."""

    def __init__(self, *, config: BrokerConfig, disk: Disk, clock: Clock) -> None:
        self.config = config
        self.dirs = LogDirs(config, disk, clock)
        self.was_clean = True
        self.broker_epoch_at_shutdown = UNKNOWN_BROKER_EPOCH
        self.disk = disk
        self._clock = clock
        self._files = FilePool(disk)
        self._clean: dict[str, bool] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._vouched: dict[TopicPartition, int] = {}
        self.unusable = Unusable(disk)
        self._unconfirmed: set[TopicPartition] = set()
        self._shortened: list[Log] = []
        self.on_failure: Callable[[Log, LogError], None] | None = None
        self.on_flushed: Callable[[float], None] = lambda took_ms: None
        self.on_released: Callable[[Log], None] = lambda partition: None
        self._abandoned: set[str] = set()
        self.volumes = Volumes(config.log_dirs, disk, clock)
        self.scrub = Scrub(self.logs, disk, clock, int(config["log.scrub.bytes.per.second"]))
        self._background = Background(self, disk, clock)
        self.on_directory_failure: Callable[[str, LogError], None] | None = None
        self.cold_reads = ColdReads(disk, clock)
        self.checkpoints = Checkpoints(disk, clock, self._checkpoint_failed)
        self._retiring: dict[TopicPartition, Log] = {}
        self._unvouching: dict[TopicPartition, str] = {}
        self._settling: set[TaskHandle] = set()
        self.futures = Futures(disk, clock, self._open, self._put_aside)

    @property
    def directories(self) -> tuple[str, ...]:
        return self.config.log_dirs

    # --- start-up --------------------------------------------------------------------------------

    def prepare(self, cluster_id: str | None = None, *, version: int = KRAFT_VERSION) -> str:
        """Take the log directories: make, lock, check whose they are. The cluster's id.

        Without ``cluster_id`` the directories say it; new ones get a new one, and ``version`` of
        ``meta.properties``. Raises WrongDirectory or DirectoryLocked; then nothing is changed.
        """
        return self.dirs.take(cluster_id, version)

    @property
    def cluster_id(self) -> str:
        """Of the directories, after ``prepare``."""
        return self.dirs.cluster_id

    @property
    def directory_ids(self) -> dict[str, bytes]:
        """Of all directories that could be read, after ``prepare``."""
        return self.dirs.ids

    def load(self, topic_config: Callable[[str], TopicConfig]) -> None:
        """Open every log in the directories, recovering what was not closed in order. Those of a
        directory whose device refuses are offline, as after a later failure."""
        for directory in self.directories:
            self.dirs.attempt(directory, partial(self._open_directory, directory, topic_config))
        for directory in self.directories:
            self.dirs.attempt(directory, partial(self._note_missing, directory))
        for directory, error in self.dirs.failed.items():
            self.abandon(directory, error)
        self.volumes.look()

    def _open_directory(
        self, directory: str, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        epoch = take_clean_shutdown(self.disk, directory)
        self.was_clean = self.was_clean and epoch is not None
        if epoch is not None:
            self.broker_epoch_at_shutdown = max(self.broker_epoch_at_shutdown, epoch)
        self._load_directory(directory, epoch is not None, topic_config)

    def _note_missing(self, directory: str) -> None:
        self.unusable.look_for_missing(
            directory, RECOVERY_POINTS, self._logs, (DELETE_SUFFIX, STRAY_SUFFIX)
        )
        for name in (RECOVERY_POINTS, LOG_STARTS):
            self.unusable.keep_lines(f"{directory}/{name}")

    def _load_directory(
        self, directory: str, clean: bool, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        recovery_points = read_smaller_offsets(self.disk, f"{directory}/{RECOVERY_POINTS}")
        self._vouched.update(recovery_points)
        starts = read_smaller_offsets(self.disk, f"{directory}/{LOG_STARTS}")
        for name in self.disk.listdir(directory):
            path = f"{directory}/{name}"
            if name.endswith(DELETE_SUFFIX):
                self._background.remove_later(path, 0)
            elif name != METADATA_DIRECTORY and is_partition(name):
                key = parse_directory(path)
                point, start = recovery_points.get(key, 0), starts.get(key, 0)
                try:
                    topic_id, is_vouched = read_vouched(self.disk, path)
                except TopicIdInDoubt as error:
                    self.unusable.doubt(key, path, error)
                    continue
                opened = self._open(path, topic_config(key[0]), clean, point, start)
                opened.topic_id = topic_id
                if opened.recovery_point < point:
                    self._shortened.append(opened)
                if name.endswith(FUTURE_SUFFIX):
                    self.futures.found(opened)
                else:
                    self._logs[key] = self._only_one(opened)
                    if topic_id is not None and not is_vouched:
                        self._unconfirmed.add(key)

    def _only_one(self, found: Log) -> Log:
        """The machine may have died when a log was being replaced by one in another directory."""
        other = self._logs.get((found.topic, found.index))
        if other is None:
            return found
        newer, older = newer_of(other, found)
        log.error("%s was replaced by %s and is removed", older.directory, newer.directory)
        self._put_aside(older)
        return newer

    def _open(
        self, path: str, config: TopicConfig, clean: bool, recovery_point: int, start: int
    ) -> Log:
        return Log(
            path,
            disk=self.disk,
            config=config,
            now_ms=self._clock.now_ms(),
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=start,
            files=self._files,
        )

    def start(self) -> None:
        """Begin the work behind the logs; somebody is served from now on.

        Whoever cut a log may not have lived to write its new recovery point. The old one vouches
        for what takes the place of what was cut off; until it is gone the log takes no append.
        """
        self._background.start()
        self.checkpoints.start()
        shortened, self._shortened = self._shortened, []
        if shortened or self.unusable.has_stale_lines:
            self.write_checkpoints()
        for partition in shortened:
            self.hold_until_checkpointed(partition)

    async def stop(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close all logs in order and give the directories back."""
        await self._background.stop()
        await end(self._settling)
        await self.cold_reads.stop()
        await self.checkpoints.stop()
        closed = dict.fromkeys(self.usable_directories, True)
        for partition in [*self._logs.values(), *self.futures.logs()]:
            if not _closed_in_order(partition):
                closed[parent_of(partition)] = False
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        for directory, in_order in closed.items():
            if in_order:
                leave_clean_shutdown(self.disk, directory, broker_epoch)
        self._files.close()
        self.dirs.release()

    def let_go(self) -> None:
        """Give the directories back as they are, without a word about how they were left."""
        self._files.close()
        self.dirs.release()

    # --- the logs --------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Log | None:
        """The log of a partition, if it is here."""
        return self._logs.get((topic, index))

    def logs(self) -> list[Log]:
        """All logs."""
        return list(self._logs.values())

    def create(self, topic: str, index: int, topic_id: bytes, config: TopicConfig) -> Log:
        """The log of a partition, made if it is not here. A log of another topic id is an error."""
        known = self._logs.get((topic, index))
        if known is not None:
            if known.topic_id is None or (topic, index) in self._unconfirmed:
                try:
                    self._confirm(known, topic_id)
                except DiskError as error:
                    raise self._directory_failed(parent_of(known), error) from error
            if known.topic_id != topic_id:
                raise LogError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{known.directory} holds another topic of that name",
                )
            return known
        created = self._create_somewhere((topic, index), topic_id, config)
        self._logs[topic, index] = created
        if self._unvouching.pop((topic, index), None) == parent_of(created):
            self.hold_until_checkpointed(created)
        return created

    def _create_somewhere(self, key: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        """A new log; a directory whose disk refuses it has failed, and the next one is tried."""
        while True:
            try:
                home = self._home_of(key)
            except DiskError as error:
                raise storage_error(error) from error
            try:
                path = f"{home}/{key[0]}-{key[1]}"
                created = self._open(path, config, False, 0, 0)
                if not created.is_new:
                    self._check_left_behind(created, topic_id)
                self._mark(created, topic_id)
            except DiskError as error:
                if not is_of_the_device(error):
                    raise storage_error(error) from error
                failure = self._directory_failed(home, error)
                if self.is_usable(home):
                    raise failure from error
            else:
                return created

    def _directory_failed(self, directory: str, error: DiskError) -> LogError:
        """The disk refuses what every log needs: the directory goes offline, unless it is full."""
        failure = storage_error(error)
        if self.on_directory_failure is not None:
            self.on_directory_failure(directory, failure)
        return failure

    def _check_left_behind(self, found: Log, topic_id: bytes) -> None:
        """A directory that could not be put aside when its partition went is not the new one's."""
        try:
            known = read_topic_id(self.disk, found.directory)
        except TopicIdInDoubt as error:
            found.release()
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if known not in (None, topic_id):
            found.release()
            raise LogError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{found.directory} holds another topic of that name",
            )

    def _confirm(self, known: Log, topic_id: bytes) -> None:
        """The metadata name the id of a log that has none, or no copy that would vouch for it."""
        self._unconfirmed.discard((known.topic, known.index))
        if known.topic_id in (None, topic_id):
            self._mark(known, topic_id)

    def hold_until_checkpointed(self, created: Log) -> None:
        """Until its directory's checkpoints are written a new log takes no append: they may still
        vouch for an older log of its name, which a loss of power would make them believed of it.
        So with a log that ends before its recovery point as it was written down."""
        directory = parent_of(created)
        if not self.checkpoints.is_writing(directory):
            return

        async def release() -> None:
            await self.checkpoints.until_written(directory)
            created.unblock()

        created.block()
        task = self._clock.spawn(release(), name="unvouch")
        self._settling = {one for one in self._settling if not one.done()} | {task}

    def _mark(self, partition: Log, topic_id: bytes) -> None:
        write_topic_id(self.disk, partition.directory, topic_id, is_new=partition.is_new)
        partition.topic_id = topic_id
        partition.is_new = True

    def _home_of(self, key: TopicPartition) -> str:
        wished = self.futures.wished(key)
        return wished if wished is not None and self.is_usable(wished) else self._emptiest()

    def _emptiest(self) -> str:
        free = [d for d in self.usable_directories if d not in self.config.cordoned_log_dirs]
        # Placed here by hand or before the controller knew: in a cordoned one rather than nowhere.
        count = dict.fromkeys(free or self.usable_directories, 0)
        if not count:
            raise DiskError("every log directory has failed: none is left for new partitions")
        if len(count) == 1:
            return next(iter(count))
        for partition in self._logs.values():
            parent = parent_of(partition)
            if parent in count:
                count[parent] += 1
        return min(count, key=count.__getitem__)

    def delete(self, topic: str, index: int, *, is_last: bool = True) -> None:
        """Take a log away at once; its files go after file.delete.delay.ms.

        Whoever deletes many writes the checkpoints only once, with the last: they name all logs.
        """
        try:
            self.futures.drop((topic, index))
        except LogError as error:
            log.error("the future log of %s-%d stays until the next start: %s", topic, index, error)
        doubtful = self.unusable.drop((topic, index))
        if doubtful is not None:
            self._rename(doubtful, (topic, index), STRAY_SUFFIX)
        partition = self._logs.pop((topic, index), None)
        if partition is not None:
            if self._vouched.get((topic, index)):
                self._unvouching[topic, index] = parent_of(partition)
            self._put_aside(partition)
        self._finish_retiring((topic, index))
        if is_last:  # also if this one was not here: those before it were
            self.write_checkpoints()

    def _put_aside(self, partition: Log) -> None:
        """Rename a log's directory, to be removed after file.delete.delay.ms."""
        partition.release()
        aside = self._rename(partition.directory, (partition.topic, partition.index), DELETE_SUFFIX)
        self._background.remove_later(aside, partition.config.file_delete_delay_ms)

    def _rename(self, directory: str, key: TopicPartition, suffix: str) -> str:
        """Give a partition's directory a name under which it is no log any more."""
        name = f"{key[0][:200]}-{key[1]}.{self._clock.new_uuid().hex()}{suffix}"
        aside = f"{directory.rpartition('/')[0]}/{name}"
        try:
            self.disk.rename(directory, aside)
        except DiskError as error:
            raise storage_error(error) from error
        return aside

    def keep_stray(self, partition: Log) -> str:
        """Serve a log no more that nobody knows, and keep it; where it is kept."""
        del self._logs[partition.topic, partition.index]
        partition.release()
        return self._rename(partition.directory, (partition.topic, partition.index), STRAY_SUFFIX)

    # --- moves between directories ---------------------------------------------------------------

    def promote(self, current: Log) -> Log:
        """A log's future log takes its place; see ``Futures.promote``."""
        self._finish_retiring((current.topic, current.index))
        fresh = self._logs[current.topic, current.index] = self.futures.promote(current)
        return fresh

    def _finish_retiring(self, key: TopicPartition) -> None:
        """A log that was replaced and kept stands where another may have to be soon."""
        replaced = self._retiring.pop(key, None)
        if replaced is not None:
            self._put_aside(replaced)

    async def retire(self, replaced: Log, fresh: Log) -> None:
        """Put a log aside that another has replaced, once the other is on the device, and vouch
        for that one from now on. Until then a start after a loss of power finds both and takes
        the longer one (``newer_of``). LogError: the directory of the replaced one has failed."""
        key = (fresh.topic, fresh.index)
        self._retiring[key] = replaced
        replaced.release()
        try:
            if await self.flush(fresh) and self._retiring.pop(key, None) is replaced:
                self._put_aside(replaced)
                directory = parent_of(replaced)
                await self.disk.run(self.disk.flush_directory, directory, worker=directory)
        except DiskError as error:
            raise storage_error(error) from error
        finally:
            self.write_checkpoints()

    async def flush(self, partition: Log) -> bool:
        """Force one log to the device beside other work; whether it is there. An error goes to
        ``on_failure``."""
        return await self._background.flush(partition)

    def flush_soon(self, partition: Log) -> TaskHandle:
        """Begin to flush what flush.messages keeps from being acknowledged, unless that is under
        way; then ``on_released``. Done when nothing is kept, or when the disk has failed."""
        return self._background.flush_soon(partition)

    async def settle(self, partition: Log, cut: Cut) -> None:
        """Make a cut durable, and the checkpoint that vouched for what is cut off; then the log
        takes appends again. LogError: its directory has failed."""
        directory = partition.directory
        try:
            await self.disk.run(force_cut, self.disk, directory, cut, worker=parent_of(partition))
        except DiskError as error:
            partition.flush_failed(error)
            raise storage_error(error) from error
        self.on_truncated(partition)
        await self.checkpoints.until_written(parent_of(partition))
        partition.unblock()

    def is_usable(self, directory: str) -> bool:
        """Whether it is a log directory of ours that has not failed."""
        return directory in self.usable_directories

    def abandon(self, directory: str, error: LogError) -> None:
        """The directory has failed: its logs are gone until a restart, nothing there is touched
        any more, and it is not left as closed in order.

        Unless it was only full, its disk may have lost what this life wrote, and the next one
        must not vouch for that.
        """
        self._abandoned.add(directory)
        for key, partition in list(self._logs.items()):
            if parent_of(partition) == directory:
                del self._logs[key]
                partition.release()
        for future in self.futures.logs():
            if parent_of(future) == directory:
                self.futures.let_go((future.topic, future.index))
        if not found_no_room(error):
            self.dirs.forget_life()

    def no_room(self, directory: str) -> None:
        """A write was refused for want of room; one line a minute, the disk being full."""
        if self.volumes.refused(directory):
            log.error("the disk of %s is full: what producers write there is refused until there "
                      "is room", directory)  # fmt: skip

    def failed(self, partition: Log, error: DiskError) -> None:
        """Work behind a log was refused by the disk."""
        log.error("%s: %s", partition.directory, error)
        if self.on_failure is not None:
            self.on_failure(partition, storage_error(error))

    @property
    def usable_directories(self) -> list[str]:
        """The log directories that have not failed."""
        return [
            d for d in self.directories if d not in self._abandoned and d not in self.dirs.failed
        ]

    def unknown(self, known: Callable[[str, int, bytes | None], bool]) -> list[Log]:
        """Logs of partitions the metadata does not know (any more)."""
        here = [*self._logs.values(), *self.futures.logs()]
        return [p for p in here if not known(p.topic, p.index, p.topic_id)]

    # --- checkpoints -----------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """Write down at once what stands where: logs have gone, come or moved."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()

    def checkpoint_recovery_points(self) -> None:
        """Write down below which offset each log is flushed."""
        self._checkpoint(RECOVERY_POINTS, lambda partition: partition.recovery_point)
        self._vouched = {key: partition.recovery_point for key, partition in self._logs.items()}

    def on_truncated(self, partition: Log) -> None:
        """Above the cut nothing is flushed any more: a recovery point that is written down there
        would be believed after a loss of power."""
        if self._vouched.get((partition.topic, partition.index), 0) > partition.recovery_point:
            self.checkpoint_recovery_points()

    def checkpoint_log_starts(self) -> None:
        """Write down where each log begins, where its first segment does not say it."""
        self._checkpoint(
            LOG_STARTS,
            lambda p: p.log_start_offset if p.log_start_offset > p.first_base_offset else None,
        )

    def _checkpoint(
        self,
        name: str,
        value: Callable[[Log], int | None],
    ) -> None:
        here = [*self._logs.values(), *self.futures.logs()]
        for directory in self.usable_directories:
            offsets = self.unusable.lines(f"{directory}/{name}")
            for partition in here:
                offset = value(partition) if parent_of(partition) == directory else None
                if offset is not None:
                    offsets[partition.topic, partition.index] = offset
            self.checkpoints.put(directory, name, offsets)

    def _checkpoint_failed(self, directory: str, error: DiskError) -> None:
        self._directory_failed(directory, error)


def parent_of(partition: Log) -> str:
    """The log directory a log stands in."""
    return partition.directory.rpartition("/")[0]


def _closed_in_order(partition: Log) -> bool:
    try:
        partition.close()
    except (LogError, DiskError) as error:
        log.error("%s was not closed in order: %s", partition.directory, error)
        return False
    return True
