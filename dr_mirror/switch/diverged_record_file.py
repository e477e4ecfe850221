"""The file that keeps what only a former primary has of one partition, before its log is cut.

In: fetched batches. Out: JSON lines, and a file beside them with their SHA-256 as `sha256sum -c`
reads it; both on the device when `finish` returns. Core: `dr_mirror.switch.plan.diverged_records`.
Never: half a file under its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from bus.client.model import TopicPartition
from bus.files.durable_file import sync_folder
from bus.protocol.wire import Buffer
from dr_mirror.switch.plan.diverged_records import diverged_lines, end_of_batches

SUFFIX = ".jsonl"

Fetch = Callable[[TopicPartition, int], Buffer]
"""Batches of a partition from an offset on."""


class DivergedRecordFile:
    """Invariant: under `path` stands a whole file or none."""

    def __init__(self, folder: Path, partition: TopicPartition) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{partition.topic}-{partition.partition}{SUFFIX}"
        self.records = 0
        self._partition = partition
        self._fresh = self.path.with_suffix(".new")
        self._file = self._fresh.open("wb")
        self._digest = hashlib.sha256()

    def __enter__(self) -> DivergedRecordFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._fresh.unlink(missing_ok=True)

    def add(self, batches: Buffer, position: int) -> None:
        """The records of these batches. Raises RecordsError, OSError."""
        for line in diverged_lines(batches, self._partition, position):
            self._file.write(line)
            self._digest.update(line)
            self.records += 1

    def add_range(self, fetch: Fetch, start: int, end: int) -> None:
        """What the log holds there, as far as it goes. Raises BusError, RecordsError, OSError."""
        position = start
        while position < end:
            batches = fetch(self._partition, position)
            self.add(batches, position)
            following = end_of_batches(batches, position)
            if following <= position:
                return
            position = following

    def finish(self) -> None:
        """Make it durable under its name. Raises OSError."""
        _sync(self._file)
        os.replace(self._fresh, self.path)
        checksum = self.path.with_name(f"{self.path.name}.sha256")
        with checksum.open("w", encoding="ascii") as file:
            file.write(f"{self._digest.hexdigest()}  {self.path.name}\n")
            _sync(file)
        sync_folder(self.path.parent)


def _sync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())
