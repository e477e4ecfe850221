"""The producer snapshots of one log directory: format, writing, reading, pruning.

A missing or damaged snapshot only makes recovery read more of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from struct import Struct

from crc32c import crc32c

from broker.disk.port import Disk, DiskError
from broker.log.files import SNAPSHOT, base_offset_of, segment_path
from broker.log.producer_state import NO_OFFSET, BatchMetadata, ProducerEntry, ProducerState

VERSION = 1
HEAD = Struct(">hI")
COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")


class ProducerSnapshotDamaged(Exception):
    """The bytes are no producer snapshot; an older one or the log itself is used instead."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
    packed = [_pack(entry) for entry in entries]
    body = COUNT.pack(len(packed)) + b"".join(packed)
    return HEAD.pack(VERSION, crc32c(body)) + body


def _pack(entry: ProducerEntry) -> bytes:
    last = (
        entry.batches[-1]
        if entry.batches
        else BatchMetadata(-1, NO_OFFSET, 0, entry.last_timestamp_ms)
    )
    return ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The entries in a file; raises ProducerSnapshotDamaged and nothing else."""
    if len(data) < HEAD.size + COUNT.size:
        raise ProducerSnapshotDamaged(f"{len(data)} bytes")
    version, crc = HEAD.unpack_from(data)
    body = memoryview(data)[HEAD.size :]
    if version != VERSION:
        raise ProducerSnapshotDamaged(f"version {version}")
    if crc32c(body) != crc:
        raise ProducerSnapshotDamaged("the CRC does not match")
    (count,) = COUNT.unpack_from(body)
    packed = body[COUNT.size :]
    if count * ENTRY.size != len(packed):
        raise ProducerSnapshotDamaged(f"{count} entries in {len(packed)} bytes")
    return [_entry(*fields) for fields in ENTRY.iter_unpack(packed)]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(producer_id, epoch)
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.transaction_first_offset = transaction_first_offset
    if last_offset != NO_OFFSET:
        entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms))
    return entry


log = logging.getLogger("broker.log")


class ProducerSnapshots:
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

    def write(self, offset: int, producers: ProducerState) -> str | None:
        """Write what is known of the producers of all batches below ``offset``; the path of the
        file, which the next flush has to force, ``None`` if there is nothing to write.

        It is not flushed here: a roll would delay every request. After a loss of power a partly
        written one fails its CRC, and recovery uses the one before it.
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
        """The newest valid snapshot at or below ``up_to``; damaged ones are removed."""
        for offset in reversed(self._offsets):
            if offset > up_to:
                continue
            try:
                return offset, self._read(offset)
            except (ProducerSnapshotDamaged, DiskError) as error:
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
