"""Partitions that were in a log directory and cannot be served, until a person has mended them.

In: what the directory holds, what its checkpoints say. Out: the reason and the remedy of each, and
the lines that the checkpoints keep for them. Never: a change of their files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container

from broker.disk.port import Disk
from broker.log.checkpoint import TopicPartition, read_offsets
from broker.log.files import FUTURE_SUFFIX
from broker.log.partition_metadata import TopicIdInDoubt

log = logging.getLogger("broker.log")


class Unusable:
    """Invariant: whose topic id is in doubt has a path, which is there; the others are missing."""

    def __init__(self, disk: Disk) -> None:
        self.reasons: dict[TopicPartition, str] = {}
        self.has_stale_lines = False
        """Whether a checkpoint names what was deleted: a crash came between the two."""
        self._disk = disk
        self._paths: dict[TopicPartition, str] = {}
        self._lines: dict[str, dict[TopicPartition, int]] = {}

    def doubt(self, key: TopicPartition, path: str, error: TopicIdInDoubt) -> None:
        """Its topic id is in doubt."""
        log.error("%s", error)
        if not path.endswith(FUTURE_SUFFIX):  # of that the original is still there
            self.reasons[key], self._paths[key] = str(error), path

    def look_for_missing(
        self,
        directory: str,
        checkpoint: str,
        here: Container[TopicPartition],
        aside: tuple[str, ...],
    ) -> None:
        """A replica that has lost its log must not begin anew as if nothing had been in it: the
        others would follow it, for it is in sync as far as the controller knows. What ends in one
        of the suffixes ``aside`` was put aside on purpose."""
        names = self._disk.listdir(directory)
        put_aside = {name.rpartition(".")[0] for name in names if name.endswith(aside)}
        told = read_offsets(self._disk, f"{directory}/{checkpoint}")
        for (topic, index), offset in told.items():
            if offset <= 0 or (topic, index) in here or (topic, index) in self.reasons:
                continue
            if f"{topic[:200]}-{index}" in put_aside:
                self.has_stale_lines = True
                continue
            reason = self.reasons[topic, index] = (
                f"{directory}/{topic}-{index} is missing, but was flushed up to offset {offset}; "
                "put it back and start again; or, to begin it anew (from its leader, if it has "
                f"other replicas), take its line out of {directory}/{checkpoint} first"
            )
            log.error("%s", reason)

    def keep_lines(self, path: str) -> None:
        """Remember what a checkpoint says of them."""
        told = read_offsets(self._disk, path)
        self._lines[path] = {key: o for key, o in told.items() if key in self.reasons}

    def lines(self, path: str) -> dict[TopicPartition, int]:
        """What the checkpoint is to say of them still."""
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
