"""The log directories of a starting broker: owner, last shutdown, failures.

Locks them, checks their ids and reads the broker epoch of the last process. Never opens a log, and
never writes into a directory that belongs to another node.

A directory whose device refuses while the broker starts is left out and offline until a restart,
as one that fails later (KIP-112). In KRaft the metadata directory may not fail, and nowhere all of
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.disk.port import DirectoryLock, Disk, DiskError
from broker.log.errors import LogError, is_device_failure, storage_error
from broker.log.log import Log
from broker.log.log_dir_files import (
    KRAFT_VERSION,
    META_PROPERTIES,
    UNKNOWN_BROKER_EPOCH,
    MetaProperties,
    WrongDirectory,
    check_meta_properties,
    check_version,
    clean_shutdown_epoch,
    clear_boot_marker,
    new_id,
    read_boot_marker,
    read_meta_properties,
    signs_of_use,
    write_boot_marker,
    write_meta_properties,
)

log = logging.getLogger("broker.log")

Result = TypeVar("Result")


class LogDirs:
    """Invariant: `ids` has every directory whose `meta.properties` could be read."""

    def __init__(self, config: BrokerConfig, disk: Disk, clock: Clock) -> None:
        self.cluster_id = ""
        self.ids: dict[str, bytes] = {}
        self.failed: dict[str, LogError] = {}
        """Directories that failed while the broker started."""
        self._config, self._disk, self._clock = config, disk, clock
        self._vital = frozenset({config.metadata_log_dir})
        self._locks: list[DirectoryLock] = []

    def acquire(self, cluster_id: str | None, version: int) -> str:
        """Create and lock them, check their owner; returns the cluster's id. Raises WrongDirectory,
        DirectoryLocked or DiskError; then nothing is changed."""
        try:
            return self._acquire(cluster_id, version)
        except (WrongDirectory, DiskError):
            self.release()
            raise

    def _acquire(self, cluster_id: str | None, version: int) -> str:
        if version != KRAFT_VERSION:
            self._vital = frozenset()
        found: dict[str, MetaProperties | None] = {}
        for directory in dict.fromkeys((*self._config.log_dirs, self._config.metadata_log_dir)):
            self.attempt(directory, partial(self._lock_and_read, directory, found))
        known = [identity for identity in found.values() if identity is not None]
        self.cluster_id = cluster_id or (known[0].cluster_id if known else new_id(self._clock))
        for directory, identity in found.items():
            if identity is not None:
                check_meta_properties(directory, identity, self.cluster_id, self._config.node_id)
                check_version(directory, identity, version)
        for directory, identity in found.items():
            self.attempt(directory, partial(self._claim, directory, identity, version))
        if len(set(self.ids.values())) != len(self.ids):
            raise WrongDirectory("two log.dirs carry the same directory.id; one is a copy")
        return self.cluster_id

    def attempt(self, directory: str, work: Callable[[], Result]) -> Result | None:
        """A step of the start in one directory; None if its device refuses, now or before."""
        if directory in self.failed:
            return None
        try:
            return work()
        except (DiskError, LogError) as error:
            cause = error if isinstance(error, DiskError) else error.__cause__
            if not isinstance(cause, DiskError) or not is_device_failure(cause):
                raise
            if directory in self._vital or self._is_last(directory):
                raise cause from error
            log.error("log directory %s has failed and is offline until a restart: %s",
                      directory, cause)  # fmt: skip
            self.failed[directory] = storage_error(cause)
            return None

    def _is_last(self, directory: str) -> bool:
        return all(one in self.failed or one == directory for one in self._config.log_dirs)

    def _lock_and_read(self, directory: str, found: dict[str, MetaProperties | None]) -> None:
        self._disk.mkdirs(directory)
        self._locks.append(self._disk.lock(directory))
        identity = read_meta_properties(self._disk, directory)
        if identity is None:
            self._check_unused(directory)
        found[directory] = identity

    def _check_unused(self, directory: str) -> None:
        signs = signs_of_use(self._disk, directory)
        if signs:
            raise WrongDirectory(
                f"{directory}/{META_PROPERTIES} is missing, but the directory has been used "
                f"({', '.join(signs)}); restore it from a backup (cluster.id and node.id are those "
                "of the other log.dirs), or name another log.dirs; nothing was changed"
            )

    def _claim(self, directory: str, identity: MetaProperties | None, version: int) -> None:
        if identity is None or not identity.directory_id:
            version = version if identity is None else identity.version
            identity = MetaProperties(
                self.cluster_id, self._config.node_id, self._clock.new_uuid(), version
            )
            write_meta_properties(self._disk, directory, identity)
        self.ids[directory] = identity.directory_id

    def release(self) -> None:
        """Release the locks."""
        while self._locks:
            self._locks.pop().release()

    # --- the last process and this one -----------------------------------------------------------

    def previous_broker_epoch(self) -> int:
        """The epoch of this broker's last process, if every directory verifies that nothing of it
        is lost: it was closed cleanly, or only the process died (ADR 0032). Else -1.

        The oldest epoch where they differ: the process may have died while it stored a new one,
        and the controller knows whether that one was ever in use."""
        boot_id = self._disk.boot_id()
        epochs = {
            self.attempt(one, partial(self._last_epoch, one, boot_id))
            for one in self._config.log_dirs
        }
        known = [one for one in epochs if one is not None]
        return min(known) if known and len(known) == len(epochs) else UNKNOWN_BROKER_EPOCH

    def _last_epoch(self, directory: str, boot_id: str) -> int:
        clean = clean_shutdown_epoch(self._disk, directory)
        return read_boot_marker(self._disk, directory, boot_id) if clean is None else clean

    def was_clean_shutdown(self) -> bool:
        """Whether every directory was closed cleanly. Kafka in ZooKeeper mode names no epoch
        there."""
        return all(
            self.attempt(one, partial(clean_shutdown_epoch, self._disk, one)) is not None
            for one in self._config.log_dirs
        )

    def begin_boot_marker(self, broker_epoch: int) -> None:
        """Record that the directories are in use under this broker epoch."""
        boot_id = self._disk.boot_id()
        for one in self._config.log_dirs:
            self.attempt(one, partial(write_boot_marker, self._disk, one, boot_id, broker_epoch))

    def clear_boot_marker(self) -> None:
        """Remove the boot markers: what this process wrote does not count as complete. One missing
        marker is enough, and a failed directory may refuse the removal: all are tried."""
        for one in self._config.log_dirs:
            with suppress(DiskError):
                clear_boot_marker(self._disk, one)


def parent_of(partition: Log) -> str:
    """The log directory that holds a log."""
    return partition.directory.rpartition("/")[0]
