"""Logs that are being made in another log directory, to replace those there are (KIP-113).

In: partitions and directories. Out: future logs, named ``<topic>-<partition>.<32 hex>-future``;
directories wished for logs that are not made yet. Never: the copying, nor when a log is replaced;
two logs of one partition in one directory.

Replacing: the future log gets its proper name first, then the old one is put aside as ``-delete``.
If the machine dies between the two, both are found at the next start. They ended alike then, and
only one of them can have gone on since; ``newer_of`` says which.
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

MAX_WISHES = 10_000
"""Directories remembered for partitions that are not here yet; the oldest is forgotten then."""

LONGEST_NAME = 255
"""Bytes in a directory's name that file systems take (KAFKA-4893)."""

UNIQUE_CHARACTERS = 32

Open = Callable[[str, TopicConfig, bool, int, int], Log]


class Futures:
    """Invariant: a partition has at most one future log."""

    def __init__(
        self, disk: Disk, clock: Clock, open_log: Open, put_aside: Callable[[Log], None]
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._open = open_log
        self._put_aside = put_aside
        self._logs: dict[TopicPartition, Log] = {}
        self._wishes: dict[TopicPartition, str] = {}

    def get(self, key: TopicPartition) -> Log | None:
        """The future log of a partition, if there is one."""
        return self._logs.get(key)

    def logs(self) -> list[Log]:
        """All future logs."""
        return list(self._logs.values())

    def make(self, current: Log, directory: str) -> Log:
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

    def found(self, future: Log) -> None:
        """One that an earlier life left. Of two, of which one was being dropped, one stays."""
        key = (future.topic, future.index)
        other = self._logs.get(key)
        if other is not None:
            future, older = newer_of(other, future)
            self._put_aside(older)
        self._logs[key] = future

    def drop(self, key: TopicPartition) -> None:
        """Make it no more; LogError if the disk refuses."""
        future = self._logs.pop(key, None)
        if future is not None:
            self._put_aside(future)

    def let_go(self, key: TopicPartition) -> None:
        """The directory has failed: leave what there is to the next start."""
        future = self._logs.pop(key, None)
        if future is not None:
            future.release()

    def promote(self, current: Log) -> Log:
        """The future log under its proper name, with all that the current log knows beside its
        batches. What of it is not on the device is said by its recovery point, and its name is not.
        The current one is left as it is. LogError: it is not done.
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
            fresh.take_over_unflushed(future)
        except DiskError as error:
            raise storage_error(error) from error
        if fresh.end_offset != current.end_offset:
            raise LogError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{path} ends at {fresh.end_offset}, the log it replaces at {current.end_offset}",
            )
        del self._logs[key]
        _take_over(fresh, current)
        return fresh

    # --- wishes ----------------------------------------------------------------------------------

    def wish(self, key: TopicPartition, directory: str) -> None:
        """The partition is not here; when it comes, this is where its log is to be made."""
        self._wishes.pop(key, None)
        self._wishes[key] = directory
        if len(self._wishes) > MAX_WISHES:
            del self._wishes[next(iter(self._wishes))]

    def wished(self, key: TopicPartition) -> str | None:
        """Where its log is to be made; the wish is fulfilled by that."""
        return self._wishes.pop(key, None)


def _take_over(fresh: Log, current: Log) -> None:
    """Producers with all their batches, epochs that have written nothing yet, the watermark."""
    fresh.topic_id = current.topic_id
    fresh.producers.take_over(current.producers)
    if current.leader_epochs.latest > fresh.leader_epochs.latest:
        fresh.leader_epochs.assign(*current.leader_epochs.entries[-1])
    fresh.advance_high_watermark(current.high_watermark)


def newer_of(one: Log, other: Log) -> tuple[Log, Log]:
    """Of two logs of one partition the one that has gone on, and the one it replaced."""

    def age(log: Log) -> tuple[int, int]:
        return log.latest_epoch, log.end_offset

    return (one, other) if age(one) > age(other) else (other, one)


def name_fits(topic: str, index: int) -> bool:
    """Whether a future log of the partition can have its name."""
    length = len(f"{topic}-{index}.{FUTURE_SUFFIX}") + UNIQUE_CHARACTERS
    return length <= LONGEST_NAME
