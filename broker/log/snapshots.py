"""The producer snapshots of one log directory: which there are, writing, reading, pruning.

In: offsets and producer state. Out: the newest usable snapshot at or below an offset. Never: the
only copy of anything; a missing or damaged snapshot only makes recovery read more of the log.
"""

from __future__ import annotations

import logging

from broker.disk.port import Disk, DiskError
from broker.log.files import SNAPSHOT, base_offset_of, segment_path
from broker.log.producer_snapshot import SnapshotDamaged, decode_snapshot, encode_snapshot
from broker.log.producer_state import ProducerEntry, ProducerState

log = logging.getLogger("broker.log")


class Snapshots:
    """Invariant: ``_offsets`` are the snapshots on the disk, rising."""

    def __init__(self, disk: Disk, directory: str, names: list[str]) -> None:
        """``names``: of the files in the directory."""
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(
            offset
            for name in names
            if name.endswith(SNAPSHOT) and (offset := base_offset_of(name)) is not None
        )

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    def take(self, offset: int, producers: ProducerState) -> str | None:
        """Write what is known of the producers of all batches below ``offset``; the path of the
        file, which the next flush has to force, ``None`` if there is nothing to write.

        It is not forced here: a roll would hold up everybody. One that a loss of power has torn
        does not have the CRC that it names, and recovery takes the one before it.
        """
        if offset in self._offsets or offset == 0:
            return None
        path = self._path(offset)
        data = encode_snapshot(producers.active())
        file = self._disk.open(path + ".tmp", create=True)
        try:
            file.truncate(0)
            file.append(data)
        finally:
            file.close()
        self._disk.rename(path + ".tmp", path)
        self._offsets = sorted([*self._offsets, offset])
        return path

    def newest(self, up_to: int) -> tuple[int, list[ProducerEntry]] | None:
        """The newest sound snapshot at or below ``up_to``; damaged ones are removed."""
        for offset in reversed(self._offsets):
            if offset > up_to:
                continue
            try:
                return offset, self._read(offset)
            except (SnapshotDamaged, DiskError) as error:
                log.warning("producer snapshot %s is not usable: %s", self._path(offset), error)
                self.drop(offset)
        return None

    def drop_after(self, offset: int) -> None:
        """Remove the snapshots above ``offset``."""
        for other in self._offsets:
            if other > offset:
                self.drop(other)

    def keep_only(self, bases: set[int]) -> None:
        """Remove those that belong to no segment, except the newest."""
        for offset in self._offsets[:-1]:
            if offset not in bases:
                self.drop(offset)

    def drop(self, offset: int) -> None:
        """Remove one."""
        self._offsets = [other for other in self._offsets if other != offset]
        self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return segment_path(self._directory, offset, SNAPSHOT)

    def _read(self, offset: int) -> list[ProducerEntry]:
        file = self._disk.open(self._path(offset))
        try:
            return decode_snapshot(file.read(0, file.size()))
        finally:
            file.close()
