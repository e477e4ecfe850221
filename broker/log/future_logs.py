"""Future logs (KIP-113): copies under construction in another log directory.

Creates and promotes logs named ``<topic>-<partition>.<32 hex>-future``, and remembers the preferred
directory of logs that are not here yet. Copying and the moment of replacement are `LogDirMover`'s.
One directory never holds two logs of one partition.

Replacing: the future log gets its proper name first, then the old one is renamed to ``-delete``.
If the machine dies in between, the next start finds both. They ended at the same offset then, and
only one of them can have grown since; ``newer_of`` says which.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock
from broker.config.views import TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.checkpoint import TopicPartition
from broker.log.errors import LogError, storage_error
from broker.log.files import FUTURE_SUFFIX
from broker.log.log import Log
from broker.log.partition_metadata import write_topic_id
from bus.errors import ErrorCode

MAX_PREFERRED_DIRS = 10_000
"""Preferred directories of partitions that are not here yet; the oldest is dropped beyond that."""

LONGEST_NAME = 255
"""Bytes that file systems allow in a directory's name (KAFKA-4893)."""

UNIQUE_CHARACTERS = 32

Open = Callable[[str, TopicConfig, bool, int, int], Log]


class FutureLogs:
    """Invariant: a partition has at most one future log."""

    def __init__(
        self, disk: Disk, clock: Clock, open_log: Open, schedule_delete: Callable[[Log], None]
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._open = open_log
        self._schedule_delete = schedule_delete
        self._logs: dict[TopicPartition, Log] = {}
        self._preferred_dirs: dict[TopicPartition, str] = {}

    def get(self, key: TopicPartition) -> Log | None:
        """The future log of a partition, if there is one."""
        return self._logs.get(key)

    def logs(self) -> list[Log]:
        """All future logs."""
        return list(self._logs.values())

    def create(self, current: Log, directory: str) -> Log:
        """A new, empty future log of a partition; LogError if the disk refuses."""
        unique = self._clock.new_uuid().hex()
        path = f"{directory}/{current.topic}-{current.index}.{unique}{FUTURE_SUFFIX}"
        try:
            future = self._open(path, current.config, False, 0, 0)
            if current.topic_id is not None:
                write_topic_id(self._disk, path, current.topic_id)
                future.topic_id, future.is_new = current.topic_id, True
        except DiskError as error:
            raise storage_error(error) from error
        self._logs[current.topic, current.index] = future
        return future

    def add_found(self, future: Log) -> None:
        """Register one that an earlier process left. Of two, one was being dropped: the newer
        stays."""
        key = (future.topic, future.index)
        other = self._logs.get(key)
        if other is not None:
            future, older = newer_of(other, future)
            self._schedule_delete(older)
        self._logs[key] = future

    def drop(self, key: TopicPartition) -> None:
        """Give the future log up and delete it; LogError if the disk refuses."""
        future = self._logs.pop(key, None)
        if future is not None:
            self._schedule_delete(future)

    def release(self, key: TopicPartition) -> None:
        """The directory has failed: close the log and leave its files to the next start."""
        future = self._logs.pop(key, None)
        if future is not None:
            future.release()

    def promote(self, current: Log) -> Log:
        """Rename the future log to its proper name and give it the current log's state beside the
        batches. Its recovery point says what is not on the device yet; its new name is not either.
        The current log is left as it is. LogError: nothing was replaced.
        """
        key = (current.topic, current.index)
        future = self._logs[key]
        directory = future.directory.rpartition("/")[0]
        path = f"{directory}/{current.topic}-{current.index}"
        try:
            flushed = future.recovery_point
            future.close_unflushed()
            self._disk.rename(future.directory, path)
            fresh = self._open(path, current.config, True, flushed, current.log_start_offset)
            fresh.copy_unflushed_state(future)
        except DiskError as error:
            raise storage_error(error) from error
        if fresh.end_offset != current.end_offset:
            raise LogError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{path} ends at {fresh.end_offset}, the log it replaces at {current.end_offset}",
            )
        del self._logs[key]
        _copy_state(fresh, current)
        return fresh

    # --- preferred directories -------------------------------------------------------------------

    def prefer_dir(self, key: TopicPartition, directory: str) -> None:
        """The partition is not here; if it comes, its log is created in this directory."""
        self._preferred_dirs.pop(key, None)
        self._preferred_dirs[key] = directory
        if len(self._preferred_dirs) > MAX_PREFERRED_DIRS:
            del self._preferred_dirs[next(iter(self._preferred_dirs))]

    def preferred_dir(self, key: TopicPartition) -> str | None:
        """Where its log is to be created, if that was set; forgotten by this call."""
        return self._preferred_dirs.pop(key, None)


def _copy_state(fresh: Log, current: Log) -> None:
    """Producers with all their batches, epochs that have written nothing yet, the watermark."""
    fresh.topic_id = current.topic_id
    fresh.producers.copy_from(current.producers)
    if current.leader_epochs.latest > fresh.leader_epochs.latest:
        fresh.leader_epochs.assign(*current.leader_epochs.entries[-1])
    fresh.advance_high_watermark(current.high_watermark)


def newer_of(one: Log, other: Log) -> tuple[Log, Log]:
    """Of two logs of one partition the one that has grown since, and the one it replaced."""

    def age(log: Log) -> tuple[int, int]:
        return log.latest_epoch, log.end_offset

    return (one, other) if age(one) > age(other) else (other, one)


def name_fits(topic: str, index: int) -> bool:
    """Whether a future log of the partition can have its name."""
    length = len(f"{topic}-{index}.{FUTURE_SUFFIX}") + UNIQUE_CHARACTERS
    return length <= LONGEST_NAME
