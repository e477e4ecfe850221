"""The checkpoint of the high watermarks, one file per log directory.

It is never a reason to truncate a log: a restarted replica learns the true watermark from its
leader, or as leader from its followers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.disk.port import DiskError
from broker.log.checkpoint import TopicPartition, read_smaller_offsets
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from broker.replica.partition import Partition

HIGH_WATERMARKS = "replication-offset-checkpoint"


log = logging.getLogger("broker.replica")


class WatermarkCheckpoint:
    """Invariant: ``_written`` is what the files say, as far as we wrote them."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._written: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] | None = None

    def restore(self, partition_log: Log) -> None:
        """Give a log the watermark it had, within what it still holds (X-GAP-20)."""
        if self._stored is None:
            self._stored = {}
            for directory in self._logs.directories:
                self._stored.update(self._read(directory))
        stored = self._stored.pop((partition_log.topic, partition_log.index), 0)
        watermark = min(max(stored, partition_log.log_start_offset), partition_log.end_offset)
        partition_log.advance_high_watermark(watermark)

    def _read(self, directory: str) -> dict[TopicPartition, int]:
        try:
            return read_smaller_offsets(self._logs.disk, f"{directory}/{HIGH_WATERMARKS}")
        except DiskError as error:
            log.error("%s/%s cannot be read: %s", directory, HIGH_WATERMARKS, error)
            return {}  # the watermark begins at the log's start; the leader sends the true one

    def forget(self) -> None:
        """A log has moved between directories, or a write failed: write all files next time."""
        self._written = {}

    def write(self, partitions: Iterable[Partition]) -> None:
        """Write the watermarks of all partitions, if any has changed."""
        here = list(partitions)
        current = {p.key: p.high_watermark for p in here}
        if current == self._written:
            return
        parents = {p.key: parent_of(p.log) for p in here}
        for directory in self._logs.usable_directories:
            offsets = {key: current[key] for key, parent in parents.items() if parent == directory}
            self._logs.checkpoint_writer.put(directory, HIGH_WATERMARKS, offsets)
        self._written = current
