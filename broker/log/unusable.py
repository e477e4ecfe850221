"""Partitions in a log directory that cannot be served until an operator repairs them.

Compares the directory with its checkpoints. Knows the reason and the remedy for each partition, and
the lines that the checkpoints keep for it. Never changes their files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container

from broker.disk.port import Disk
from broker.log.checkpoint import TopicPartition, read_offsets
from broker.log.files import FUTURE_SUFFIX
from broker.log.partition_metadata import TopicIdInDoubt

log = logging.getLogger("broker.log")


class UnusableLogs:
    """Invariant: a partition whose topic id is in doubt has a path; the others are missing."""

    def __init__(self, disk: Disk) -> None:
        self.reasons: dict[TopicPartition, str] = {}
        self.has_stale_lines = False
        """Whether a checkpoint names what was deleted: a crash came between the two."""
        self._disk = disk
        self._paths: dict[TopicPartition, str] = {}
        self._lines: dict[str, dict[TopicPartition, int]] = {}

    def add_doubtful(self, key: TopicPartition, path: str, error: TopicIdInDoubt) -> None:
        """Its topic id is in doubt."""
        log.error("%s", error)
        if not path.endswith(FUTURE_SUFFIX):  # the original of a future log is still there
            self.reasons[key], self._paths[key] = str(error), path

    def find_missing(
        self,
        directory: str,
        checkpoint: str,
        here: Container[TopicPartition],
        aside: tuple[str, ...],
    ) -> None:
        """A replica that lost its log must not begin again as an empty one: the controller counts
        it as in sync, so the other replicas would follow it. A directory that ends in one of the
        suffixes ``aside`` was renamed on purpose."""
        names = self._disk.listdir(directory)
        put_aside = {name.rpartition(".")[0] for name in names if name.endswith(aside)}
        offsets = read_offsets(self._disk, f"{directory}/{checkpoint}")
        for (topic, index), offset in offsets.items():
            if offset <= 0 or (topic, index) in here or (topic, index) in self.reasons:
                continue
            if f"{topic[:200]}-{index}" in put_aside:
                self.has_stale_lines = True
                continue
            reason = self.reasons[topic, index] = (
                f"{directory}/{topic}-{index} is missing, but was flushed up to offset {offset}; "
                "put it back and start again; or, to recreate it (from its leader, if it has "
                f"other replicas), take its line out of {directory}/{checkpoint} first"
            )
            log.error("%s", reason)

    def keep_lines(self, path: str) -> None:
        """Remember the checkpoint's lines of these partitions."""
        offsets = read_offsets(self._disk, path)
        self._lines[path] = {key: o for key, o in offsets.items() if key in self.reasons}

    def lines(self, path: str) -> dict[TopicPartition, int]:
        """The lines the checkpoint must keep for them."""
        kept = self._lines.get(path, {})
        return {key: offset for key, offset in kept.items() if key in self.reasons}

    def forget_others(self, is_ours: Callable[[str, int], bool]) -> None:
        """Only the cluster's own partitions matter."""
        for key in [key for key in self.reasons if not is_ours(*key)]:
            del self.reasons[key]

    def drop(self, key: TopicPartition) -> str | None:
        """The partition is gone; where its doubtful log lies, if there is one."""
        self.reasons.pop(key, None)
        return self._paths.pop(key, None)
