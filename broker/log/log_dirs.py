"""The log directories of a broker that starts: whose they are, how they were left, which fail.

In: configuration, a disk. Out: locks, ids, the epoch of the last life. Never: a log; nor a file
written where somebody else's is.

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
from broker.log.directories import (
    KRAFT_VERSION,
    META_PROPERTIES,
    UNKNOWN_BROKER_EPOCH,
    Identity,
    WrongDirectory,
    check_identity,
    check_version,
    clean_shutdown_epoch,
    epoch_of_life,
    forget_life,
    new_id,
    read_identity,
    signs_of_use,
    write_identity,
    write_life,
)
from broker.log.errors import LogError, is_of_the_device, storage_error

log = logging.getLogger("broker.log")

Result = TypeVar("Result")


class LogDirs:
    """Invariant: `ids` has every directory whose `meta.properties` could be read."""

    def __init__(self, config: BrokerConfig, disk: Disk, clock: Clock) -> None:
        self.cluster_id = ""
        self.ids: dict[str, bytes] = {}
        self.failed: dict[str, LogError] = {}
        """Those that refused while the broker started."""
        self._config, self._disk, self._clock = config, disk, clock
        self._vital = frozenset({config.metadata_log_dir})
        self._locks: list[DirectoryLock] = []

    def take(self, cluster_id: str | None, version: int) -> str:
        """Make, lock, check whose they are. The cluster's id. Raises WrongDirectory,
        DirectoryLocked or DiskError; then nothing is changed."""
        try:
            return self._take(cluster_id, version)
        except (WrongDirectory, DiskError):
            self.release()
            raise

    def _take(self, cluster_id: str | None, version: int) -> str:
        if version != KRAFT_VERSION:
            self._vital = frozenset()
        found: dict[str, Identity | None] = {}
        for directory in dict.fromkeys((*self._config.log_dirs, self._config.metadata_log_dir)):
            self.attempt(directory, partial(self._enter, directory, found))
        known = [identity for identity in found.values() if identity is not None]
        self.cluster_id = cluster_id or (known[0].cluster_id if known else new_id(self._clock))
        for directory, identity in found.items():
            if identity is not None:
                check_identity(directory, identity, self.cluster_id, self._config.node_id)
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
            if not isinstance(cause, DiskError) or not is_of_the_device(cause):
                raise
            if directory in self._vital or self._is_last(directory):
                raise cause from error
            log.error("log directory %s has failed and is offline until a restart: %s",
                      directory, cause)  # fmt: skip
            self.failed[directory] = storage_error(cause)
            return None

    def _is_last(self, directory: str) -> bool:
        return all(one in self.failed or one == directory for one in self._config.log_dirs)

    def _enter(self, directory: str, found: dict[str, Identity | None]) -> None:
        self._disk.mkdirs(directory)
        self._locks.append(self._disk.lock(directory))
        identity = read_identity(self._disk, directory)
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

    def _claim(self, directory: str, identity: Identity | None, version: int) -> None:
        if identity is None or not identity.directory_id:
            version = version if identity is None else identity.version
            identity = Identity(
                self.cluster_id, self._config.node_id, self._clock.new_uuid(), version
            )
            write_identity(self._disk, directory, identity)
        self.ids[directory] = identity.directory_id

    def release(self) -> None:
        """Give them back."""
        while self._locks:
            self._locks.pop().release()

    # --- the last life and this one --------------------------------------------------------------

    def previous_broker_epoch(self) -> int:
        """The epoch of this broker's last life, if every directory vouches that nothing of it is
        lost: it was closed in order, or only the process died (ADR 0032). Else -1."""
        boot_id = self._disk.boot_id()
        epochs = {
            self.attempt(one, partial(self._last_epoch, one, boot_id))
            for one in self._config.log_dirs
        }
        known = epochs.pop() if len(epochs) == 1 else None
        return UNKNOWN_BROKER_EPOCH if known is None else known

    def _last_epoch(self, directory: str, boot_id: str) -> int:
        clean = clean_shutdown_epoch(self._disk, directory)
        return epoch_of_life(self._disk, directory, boot_id) if clean is None else clean

    def was_closed_in_order(self) -> bool:
        """Whether every directory says so. Kafka in ZooKeeper mode names no epoch there."""
        return all(
            self.attempt(one, partial(clean_shutdown_epoch, self._disk, one)) is not None
            for one in self._config.log_dirs
        )

    def begin_life(self, broker_epoch: int) -> None:
        """From now on the directories are used under this broker epoch."""
        boot_id = self._disk.boot_id()
        for one in self._config.log_dirs:
            self.attempt(one, partial(write_life, self._disk, one, boot_id, broker_epoch))

    def forget_life(self) -> None:
        """Vouch for nothing of this life. One directory that does not is enough, and a failed one
        may refuse to forget: all are asked."""
        for one in self._config.log_dirs:
            with suppress(DiskError):
                forget_life(self._disk, one)
