"""All logs of a broker: opening, creating, deleting, and their periodic maintenance.

In: configuration, ports, topics and partitions. Out: ``Log`` objects. Never: leadership or
metadata; the replica manager says which partitions exist.

``prepare`` locks the directories, ``load`` opens what is there, ``start`` begins the maintenance
(retention, flushing, checkpoints, removal of deleted files), ``stop`` closes all logs cleanly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.checkpoint import (
    TopicPartition,
    read_smaller_offsets,
)
from broker.log.checkpoint_writer import CheckpointWriter
from broker.log.cold_reads import ColdReads
from broker.log.digest import LogDigests
from broker.log.errors import LogError, is_device_failure, is_disk_full, storage_error
from broker.log.files import FUTURE_SUFFIX, FilePool, is_partition, parse_directory
from broker.log.future_logs import FutureLogs, newer_of
from broker.log.log import Log
from broker.log.log_checkpoints import (
    FIRST_DIRTY,
    LOG_STARTS,
    RECOVERY_POINTS,
    LogCheckpoints,
)
from broker.log.log_dir_files import (
    KRAFT_VERSION,
    METADATA_DIRECTORY,
    UNKNOWN_BROKER_EPOCH,
    consume_clean_shutdown,
    write_clean_shutdown,
)
from broker.log.log_dirs import LogDirs, parent_of
from broker.log.maintenance import LogMaintenance
from broker.log.partition_metadata import (
    TopicIdInDoubt,
    read_topic_id,
    read_verified_topic_id,
    write_topic_id,
)
from broker.log.scrub import LogScrubber
from broker.log.segments import PendingTruncation, force_truncation
from broker.log.strays import SUFFIX as STRAY_SUFFIX
from broker.log.unusable import UnusableLogs
from broker.log.volumes import Volumes
from bus.errors import ErrorCode

log = logging.getLogger("broker.log")

DELETE_SUFFIX = "-delete"


class LogManager:
    """The logs of one broker. Invariant: a log is in exactly one of the log directories.

    Whole, though long: each kind of work is a class beside it (directories, future logs, unusable
    logs, checkpoints, maintenance); what is left answers which log is where, which creation,
    deletion, moves and failures of directories all change.
    """

    def __init__(self, *, config: BrokerConfig, disk: Disk, clock: Clock) -> None:
        self.config = config
        self.dirs = LogDirs(config, disk, clock)
        self.was_clean = True
        self.broker_epoch_at_shutdown = UNKNOWN_BROKER_EPOCH
        self.disk = disk
        self._clock = clock
        self.files = FilePool(disk)
        self._clean: dict[str, bool] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self.unusable = UnusableLogs(disk)
        self._unconfirmed: set[TopicPartition] = set()
        self._truncated: list[Log] = []
        self.on_failure: Callable[[Log, LogError], None] | None = None
        self.on_flushed: Callable[[float], None] = lambda took_ms: None
        self.on_released: Callable[[Log], None] = lambda partition: None
        self._failed_directories: set[str] = set()
        self.volumes = Volumes(config.log_dirs, disk, clock)
        self.scrubber = LogScrubber(
            self.logs, disk, clock, int(config["log.scrub.bytes.per.second"])
        )
        self._maintenance = LogMaintenance(self, disk, clock)
        self.on_directory_failure: Callable[[str, LogError], None] | None = None
        self.cold_reads = ColdReads(disk, clock)
        self.digests = LogDigests(disk, clock, self.cold_reads)
        self.checkpoint_writer = CheckpointWriter(disk, clock, self._checkpoint_failed)
        self._retiring: dict[TopicPartition, Log] = {}
        self.future_logs = FutureLogs(disk, clock, self._open, self._schedule_delete)
        self.checkpoints = LogCheckpoints(
            self.checkpoint_writer, clock, self.unusable, self.logs, self.future_logs.logs,
            lambda: self.usable_directories,
        )  # fmt: skip

    @property
    def directories(self) -> tuple[str, ...]:
        return self.config.log_dirs

    # --- start-up --------------------------------------------------------------------------------

    def prepare(self, cluster_id: str | None = None, *, version: int = KRAFT_VERSION) -> str:
        """Create and lock the log directories and check their owner; returns the cluster's id.

        Without ``cluster_id`` the directories say it; new ones get a new one, and ``version`` of
        ``meta.properties``. Raises WrongDirectory or DirectoryLocked; then nothing is changed.
        """
        return self.dirs.acquire(cluster_id, version)

    @property
    def cluster_id(self) -> str:
        """Of the directories, after ``prepare``."""
        return self.dirs.cluster_id

    @property
    def directory_ids(self) -> dict[str, bytes]:
        """Of all directories that could be read, after ``prepare``."""
        return self.dirs.ids

    def load(self, topic_config: Callable[[str], TopicConfig]) -> None:
        """Open every log in the directories, recovering what was not closed cleanly. Those of a
        directory whose device refuses are offline, as after a later failure."""
        for directory in self.directories:
            self.dirs.attempt(directory, partial(self._open_directory, directory, topic_config))
        for directory in self.directories:
            self.dirs.attempt(directory, partial(self._find_missing, directory))
        for directory, error in self.dirs.failed.items():
            self.handle_directory_failure(directory, error)
        self.volumes.refresh_now()

    def _open_directory(
        self, directory: str, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        epoch = consume_clean_shutdown(self.disk, directory)
        self.was_clean = self.was_clean and epoch is not None
        if epoch is not None:
            self.broker_epoch_at_shutdown = max(self.broker_epoch_at_shutdown, epoch)
        self._load_directory(directory, epoch is not None, topic_config)

    def _find_missing(self, directory: str) -> None:
        self.unusable.find_missing(
            directory, RECOVERY_POINTS, self._logs, (DELETE_SUFFIX, STRAY_SUFFIX)
        )
        for name in (RECOVERY_POINTS, LOG_STARTS, FIRST_DIRTY):
            self.unusable.keep_lines(f"{directory}/{name}")

    def _load_directory(
        self, directory: str, clean: bool, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        recovery_points = read_smaller_offsets(self.disk, f"{directory}/{RECOVERY_POINTS}")
        starts = read_smaller_offsets(self.disk, f"{directory}/{LOG_STARTS}")
        first_dirty = read_smaller_offsets(self.disk, f"{directory}/{FIRST_DIRTY}")
        self.checkpoints.add_found(directory, recovery_points, first_dirty)
        for name in self.disk.listdir(directory):
            path = f"{directory}/{name}"
            if name.endswith(DELETE_SUFFIX):
                self._maintenance.schedule_removal(path, 0)
            elif name != METADATA_DIRECTORY and is_partition(name):
                key = parse_directory(path)
                point, start = recovery_points.get(key, 0), starts.get(key, 0)
                try:
                    topic_id, is_verified = read_verified_topic_id(self.disk, path)
                except TopicIdInDoubt as error:
                    self.unusable.add_doubtful(key, path, error)
                    continue
                opened = self._open(path, topic_config(key[0]), clean, point, start)
                opened.topic_id = topic_id
                dirty = 0 if name.endswith(FUTURE_SUFFIX) else first_dirty.get(key, 0)
                opened.cleaning.restore(dirty, opened.end_offset)
                if opened.recovery_point < point or opened.end_offset < dirty:
                    self._truncated.append(opened)
                if name.endswith(FUTURE_SUFFIX):
                    self.future_logs.add_found(opened)
                else:
                    self._logs[key] = self._resolve_duplicate(opened)
                    if topic_id is not None and not is_verified:
                        self._unconfirmed.add(key)

    def _resolve_duplicate(self, found: Log) -> Log:
        """The machine may have died while a log was being replaced by one in another directory."""
        other = self._logs.get((found.topic, found.index))
        if other is None:
            return found
        newer, older = newer_of(other, found)
        log.error("%s was replaced by %s and is removed", older.directory, newer.directory)
        self._schedule_delete(older)
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
            files=self.files,
        )

    def start(self) -> None:
        """Begin the maintenance; requests are served from now on.

        A process that truncated a log may have died before it wrote the new checkpoints. The old
        ones would cover the records appended instead, so the log takes no append until it is
        replaced.
        """
        self._maintenance.start()
        self.checkpoint_writer.start()
        shortened, self._truncated = self._truncated, []
        if self.checkpoints.has_stale_lines() or shortened or self.unusable.has_stale_lines:
            self.checkpoints.write()
        for partition in shortened:
            self.checkpoints.block_until_written(partition)

    async def stop(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Close all logs cleanly and release the directories."""
        await self._maintenance.stop()
        await self.checkpoints.stop()
        await self.digests.stop()
        await self.cold_reads.stop()
        await self.checkpoint_writer.stop()
        closed = dict.fromkeys(self.usable_directories, True)
        for partition in [*self._logs.values(), *self.future_logs.logs()]:
            if not _close_cleanly(partition):
                closed[parent_of(partition)] = False
        self.checkpoints.write()
        for directory, in_order in closed.items():
            if in_order:
                write_clean_shutdown(self.disk, directory, broker_epoch)
        self.files.close()
        self.dirs.release()

    def release(self) -> None:
        """Release the directories as they are, without marking a clean shutdown."""
        self.files.close()
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
                    self._confirm_topic_id(known, topic_id)
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
        self.checkpoints.on_created(created)
        return created

    def _create_somewhere(self, key: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        """A new log; a directory whose disk refuses it has failed, and the next one is tried."""
        while True:
            try:
                home = self._directory_for(key)
            except DiskError as error:
                raise storage_error(error) from error
            try:
                path = f"{home}/{key[0]}-{key[1]}"
                created = self._open(path, config, False, 0, 0)
                if not created.is_new:
                    self._check_leftover(created, topic_id)
                self._write_topic_id(created, topic_id)
            except DiskError as error:
                if not is_device_failure(error):
                    raise storage_error(error) from error
                failure = self._directory_failed(home, error)
                if self.is_usable(home):
                    raise failure from error
            else:
                return created

    def _directory_failed(self, directory: str, error: DiskError) -> LogError:
        """The disk failed at something every log needs: the directory goes offline, unless it is
        full."""
        failure = storage_error(error)
        if self.on_directory_failure is not None:
            self.on_directory_failure(directory, failure)
        return failure

    def _check_leftover(self, found: Log, topic_id: bytes) -> None:
        """A directory that could not be renamed when its partition was deleted must not be
        reused."""
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

    def _confirm_topic_id(self, known: Log, topic_id: bytes) -> None:
        """The metadata name the id of a log that has none, or no copy that confirms it."""
        self._unconfirmed.discard((known.topic, known.index))
        if known.topic_id in (None, topic_id):
            self._write_topic_id(known, topic_id)

    def _write_topic_id(self, partition: Log, topic_id: bytes) -> None:
        write_topic_id(self.disk, partition.directory, topic_id, is_new=partition.is_new)
        partition.topic_id = topic_id
        partition.is_new = True

    def _directory_for(self, key: TopicPartition) -> str:
        preferred = self.future_logs.preferred_dir(key)
        return (
            preferred
            if preferred is not None and self.is_usable(preferred)
            else self._least_loaded_directory()
        )

    def _least_loaded_directory(self) -> str:
        free = [d for d in self.usable_directories if d not in self.config.cordoned_log_dirs]
        # Assigned by hand or before the controller knew: in a cordoned one rather than nowhere.
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
        """Remove a log at once; its files are deleted after file.delete.delay.ms.

        A caller that deletes many sets ``is_last`` for the last one only: checkpoints name all logs
        and are written once.
        """
        try:
            self.future_logs.drop((topic, index))
        except LogError as error:
            log.error("the future log of %s-%d stays until the next start: %s", topic, index, error)
        doubtful = self.unusable.drop((topic, index))
        if doubtful is not None:
            self._rename(doubtful, (topic, index), STRAY_SUFFIX)
        partition = self._logs.pop((topic, index), None)
        if partition is not None:
            self.checkpoints.on_deleted(partition)
            self._schedule_delete(partition)
        self._finish_retiring((topic, index))
        if is_last:  # also if this log was not here: earlier ones may have been
            self.checkpoints.write()

    def _schedule_delete(self, partition: Log) -> None:
        """Rename a log's directory and remove it after file.delete.delay.ms."""
        partition.release()
        aside = self._rename(partition.directory, (partition.topic, partition.index), DELETE_SUFFIX)
        self._maintenance.schedule_removal(aside, partition.config.file_delete_delay_ms)

    def _rename(self, directory: str, key: TopicPartition, suffix: str) -> str:
        """Rename a partition's directory so that it is no longer a log."""
        name = f"{key[0][:200]}-{key[1]}.{self._clock.new_uuid().hex()}{suffix}"
        aside = f"{directory.rpartition('/')[0]}/{name}"
        try:
            self.disk.rename(directory, aside)
        except DiskError as error:
            raise storage_error(error) from error
        return aside

    def keep_stray(self, partition: Log) -> str:
        """Stop serving a log that the metadata do not know, and keep it; returns its new path."""
        del self._logs[partition.topic, partition.index]
        partition.release()
        return self._rename(partition.directory, (partition.topic, partition.index), STRAY_SUFFIX)

    # --- moves between directories ---------------------------------------------------------------

    def promote(self, current: Log) -> Log:
        """Replace a log by its future log; see ``FutureLogs.promote``."""
        self._finish_retiring((current.topic, current.index))
        fresh = self._logs[current.topic, current.index] = self.future_logs.promote(current)
        return fresh

    def _finish_retiring(self, key: TopicPartition) -> None:
        """Delete a replaced log that was kept: another log may need its directory soon."""
        replaced = self._retiring.pop(key, None)
        if replaced is not None:
            self._schedule_delete(replaced)

    async def retire(self, replaced: Log, fresh: Log) -> None:
        """Delete a log that another has replaced, once the other is on the device, and checkpoint
        that one from now on. Until then a start after a loss of power finds both and uses the
        longer one (``newer_of``). LogError: the directory of the replaced one has failed."""
        key = (fresh.topic, fresh.index)
        self._retiring[key] = replaced
        replaced.release()
        try:
            if await self.flush(fresh) and self._retiring.pop(key, None) is replaced:
                self._schedule_delete(replaced)
                directory = parent_of(replaced)
                await self.disk.run(self.disk.flush_directory, directory, worker=directory)
        except DiskError as error:
            raise storage_error(error) from error
        finally:
            self.checkpoints.write()

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove files, which somebody may still read, after a while."""
        for path in paths:
            self._maintenance.schedule_removal(path, delay_ms)

    async def flush(self, partition: Log) -> bool:
        """Flush one log off the loop; whether that succeeded. An error goes to ``on_failure``."""
        return await self._maintenance.flush(partition)

    def flush_soon(self, partition: Log) -> TaskHandle:
        """Begin to flush what flush.messages keeps from being acknowledged, unless that is under
        way; then ``on_released``. Done when nothing is kept, or when the disk has failed."""
        return self._maintenance.flush_soon(partition)

    async def finish_truncation(self, partition: Log, truncation: PendingTruncation) -> None:
        """Make a truncation durable and rewrite the checkpoint that covered what was cut off; then
        the log takes appends again. LogError: its directory has failed."""
        directory = partition.directory
        try:
            await self.disk.run(
                force_truncation, self.disk, directory, truncation, worker=parent_of(partition)
            )
        except DiskError as error:
            partition.flush_failed(error)
            raise storage_error(error) from error
        self.checkpoints.on_truncated(partition)
        await self.checkpoint_writer.until_written(parent_of(partition))
        partition.guard.unblock()

    def is_usable(self, directory: str) -> bool:
        """Whether it is a log directory of ours that has not failed."""
        return directory in self.usable_directories

    def handle_directory_failure(self, directory: str, error: LogError) -> None:
        """The directory has failed: its logs are offline until a restart, nothing there is touched
        any more, and it is not marked as cleanly closed.

        Unless it was only full, its disk may have lost what this process wrote, so the next one
        must not count it as complete.
        """
        self._failed_directories.add(directory)
        for key, partition in list(self._logs.items()):
            if parent_of(partition) == directory:
                del self._logs[key]
                partition.release()
        for future in self.future_logs.logs():
            if parent_of(future) == directory:
                self.future_logs.release((future.topic, future.index))
        if not is_disk_full(error):
            self.dirs.clear_boot_marker()

    def on_disk_full(self, directory: str) -> None:
        """The disk is full and refused a write; logged once a minute."""
        if self.volumes.record_refusal(directory):
            log.error("the disk of %s is full: what producers write there is refused until there "
                      "is room", directory)  # fmt: skip

    def on_disk_error(self, partition: Log, error: DiskError) -> None:
        """Maintenance of a log failed on its disk."""
        log.error("%s: %s", partition.directory, error)
        if self.on_failure is not None:
            self.on_failure(partition, storage_error(error))

    @property
    def usable_directories(self) -> list[str]:
        """The log directories that have not failed."""
        return [
            d
            for d in self.directories
            if d not in self._failed_directories and d not in self.dirs.failed
        ]

    def unknown_logs(self, known: Callable[[str, int, bytes | None], bool]) -> list[Log]:
        """Logs of partitions that are not, or no longer, in the metadata."""
        here = [*self._logs.values(), *self.future_logs.logs()]
        return [p for p in here if not known(p.topic, p.index, p.topic_id)]

    def _checkpoint_failed(self, directory: str, error: DiskError) -> None:
        self._directory_failed(directory, error)


def _close_cleanly(partition: Log) -> bool:
    try:
        partition.close()
    except (LogError, DiskError) as error:
        log.error("%s was not closed cleanly: %s", partition.directory, error)
        return False
    return True
