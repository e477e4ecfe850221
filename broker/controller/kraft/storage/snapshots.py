"""Snapshots of the metadata log: Kafka's `.checkpoint` files (KIP-630).

A snapshot gets its final name only when all of it is on the device. A file is a sequence of batches
like a segment, with offsets from 0: a control batch with SnapshotHeader, KRaftVersion and Voters,
data batches, a control batch with the SnapshotFooter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.raft.voters import VoterSet
from broker.controller.kraft.storage.records import (
    StoredBatch,
    control_record,
    decode_batches,
    kraft_version,
    snapshot_footer,
    snapshot_header,
    voters_record,
)
from broker.disk.port import Disk, File
from broker.log.log_dir_files import flush_file
from bus.protocol.record_framing import encode_metadata_record
from bus.records.batch import RecordsError, check_crc, iter_batches
from bus.records.build import build_batch
from bus.records.control import ControlType
from bus.records.record import Record

log = logging.getLogger("broker.controller")

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
RECORDS_PER_BATCH = 500
"""Keeps a batch of partition records well below the size of one fetch."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class MetadataSnapshotDamaged(Exception):
    """The file is not a whole snapshot. The text names the remedy."""


class MetadataSnapshots:
    """The snapshots of one directory. Invariant: `_ids` are the whole ones on disk, ascending."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._part: tuple[OffsetAndEpoch, File] | None = None
        self._ids: list[OffsetAndEpoch] = []
        for name in disk.listdir(directory):
            if name.endswith(PART_SUFFIX):
                disk.remove(f"{directory}/{name}")
            elif found := _NAME.fullmatch(name):
                self._ids.append(OffsetAndEpoch(int(found[1]), int(found[2])))
        self._ids.sort()

    @property
    def ids(self) -> list[OffsetAndEpoch]:
        """All of them, oldest first."""
        return list(self._ids)

    @property
    def latest(self) -> OffsetAndEpoch | None:
        """The newest."""
        return self._ids[-1] if self._ids else None

    def has(self, snapshot: OffsetAndEpoch) -> bool:
        """Whether this snapshot is on disk, whole."""
        return snapshot in self._ids

    # -- writing ----------------------------------------------------------------------------

    def write(
        self,
        snapshot: OffsetAndEpoch,
        records: Iterable[tuple[object, int]],
        voters: VoterSet | None,
        last_contained_ms: int,
    ) -> int:
        """Writes a snapshot of `records` (each with its version); returns its size in bytes."""
        for _ in self.write_steps(snapshot, records, voters, last_contained_ms):
            pass
        self.finish(snapshot)
        self.add(snapshot)
        return self.size_of(snapshot)

    def write_steps(
        self,
        snapshot: OffsetAndEpoch,
        records: Iterable[tuple[object, int]],
        voters: VoterSet | None,
        last_contained_ms: int,
    ) -> Iterator[None]:
        """Like `write`, one batch per step; then it is ready for `finish`."""
        file = self._begin(snapshot)
        for batch in snapshot_batches(records, voters, last_contained_ms, snapshot.epoch):
            file.append(batch)
            yield
        file.close()

    def finish(self, snapshot: OffsetAndEpoch) -> None:
        """Runs on a worker: flushes the file and only then gives it its final name."""
        finish_file(self._disk, self._directory, self._path(snapshot))

    def add(self, snapshot: OffsetAndEpoch) -> None:
        """The snapshot has its final name."""
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])

    def write_chunk(
        self, snapshot: OffsetAndEpoch, position: int, data: bytes | memoryview
    ) -> None:
        """Writes a fetched chunk; position 0 starts over."""
        if position == 0 or self._part is None or self._part[0] != snapshot:
            self.abort()
            self._part = (snapshot, self._begin(snapshot))
        self._part[1].write_at(position, data)

    def complete(self, snapshot: OffsetAndEpoch) -> None:
        """Runs on a worker: all chunks have arrived; gives the snapshot its name if it is whole."""
        if self._part is None or self._part[0] != snapshot:
            raise MetadataSnapshotDamaged(f"no snapshot {snapshot} was being fetched")
        file, self._part = self._part[1], None
        problem = _find_damage(file.read(0, file.size()))
        file.close()
        if problem:
            self._disk.remove(self._path(snapshot) + ".part")
            raise MetadataSnapshotDamaged(f"the fetched snapshot {snapshot} {problem}")
        self.finish(snapshot)

    def abort(self) -> None:
        """Deletes the snapshot that is being fetched."""
        if self._part is not None:
            snapshot, file = self._part
            self._part = None
            file.close()
            self._disk.remove(self._path(snapshot) + ".part")

    def _begin(self, snapshot: OffsetAndEpoch) -> File:
        file = self._disk.open(self._path(snapshot) + ".part", create=True)
        file.truncate(0)
        return file

    # -- reading ----------------------------------------------------------------------------

    def read_chunk(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> tuple[bytes, int] | None:
        """(bytes, total size); None if there is no such snapshot."""
        if snapshot not in self._ids:
            return None
        file = self._disk.open(self._path(snapshot))
        try:
            return file.read(position, max_bytes), file.size()
        finally:
            file.close()

    def load(self, snapshot: OffsetAndEpoch) -> Iterator[StoredBatch]:
        """Its decoded batches. Raises MetadataSnapshotDamaged before the first if it is not
        whole."""
        return decode_batches(self._read_whole(snapshot))

    def check(self, snapshot: OffsetAndEpoch) -> None:
        """Raises MetadataSnapshotDamaged if it is not whole."""
        self._read_whole(snapshot)

    def _read_whole(self, snapshot: OffsetAndEpoch) -> bytes:
        return read_whole(
            self._disk, self._path(snapshot), "restore it from a backup; or, if other voters have "
            f"the metadata, move {self._directory} away and start again, so that this node fetches "
            "it",
        )  # fmt: skip

    def size_of(self, snapshot: OffsetAndEpoch) -> int:
        """Bytes on disk."""
        return self._disk.size_of(self._path(snapshot))

    def modified_ms(self, snapshot: OffsetAndEpoch) -> int:
        """When it was written."""
        return self._disk.modified_ms(self._path(snapshot))

    def remove(self, snapshot: OffsetAndEpoch) -> None:
        """Delete one."""
        self._ids.remove(snapshot)
        self._disk.remove(self._path(snapshot))

    def _path(self, snapshot: OffsetAndEpoch) -> str:
        return f"{self._directory}/{snapshot.offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def finish_file(disk: Disk, directory: str, path: str) -> None:
    """What was written beside it as `.part` gets this name, once it is on the device."""
    flush_file(disk, f"{path}.part")
    disk.rename(f"{path}.part", path)
    disk.flush_directory(directory)


def snapshot_batches(
    records: Iterable[tuple[object, int]],
    voters: VoterSet | None,
    last_contained_ms: int,
    epoch: int,
) -> Iterator[bytearray]:
    """All bytes of a snapshot of `records` (each with its version), a batch at a time."""
    offset = 0
    for rows, is_control in _rows_of_batches(records, voters, last_contained_ms):
        yield build_batch(
            rows, base_offset=offset, partition_leader_epoch=epoch, is_control=is_control
        )
        offset += len(rows)


def read_whole(disk: Disk, path: str, remedy: str) -> bytes:
    """The bytes of a snapshot. Raises MetadataSnapshotDamaged, with the remedy, if it is cut."""
    file = disk.open(path)
    try:
        data = file.read(0, file.size())
    finally:
        file.close()
    if problem := _find_damage(data):
        raise MetadataSnapshotDamaged(f"{path} {problem}; {remedy}; nothing was changed")
    return data


def _rows_of_batches(
    records: Iterable[tuple[object, int]], voters: VoterSet | None, last_contained_ms: int
) -> Iterator[tuple[list[Record], bool]]:
    """The records of each batch, and whether it is a control batch."""

    def own(kind: ControlType, value: bytes) -> Record:
        return control_record(kind, value, last_contained_ms)

    first = [own(ControlType.SNAPSHOT_HEADER, snapshot_header(last_contained_ms))]
    if voters is not None:
        first.append(own(ControlType.KRAFT_VERSION, kraft_version()))
        first.append(own(ControlType.KRAFT_VOTERS, voters_record(voters)))
    yield first, True
    for some in _groups(records, RECORDS_PER_BATCH):
        yield (
            [
                Record(None, encode_metadata_record(one, version), timestamp_ms=last_contained_ms)
                for one, version in some
            ],
            False,
        )
    yield [own(ControlType.SNAPSHOT_FOOTER, snapshot_footer())], True


def _groups(records: Iterable[tuple[object, int]], size: int) -> Iterator[list[tuple[object, int]]]:
    rows = iter(records)
    while some := list(islice(rows, size)):
        yield some


def _find_damage(data: bytes) -> str | None:
    """Why these bytes are not a whole snapshot."""
    last: StoredBatch | None = None
    end = 0
    try:
        for at, header in iter_batches(data):
            check_crc(data, at)
            end = at + header.size_bytes
            if header.is_control:
                last = next(iter(decode_batches(data[at:end])))
            else:
                last = None
    except RecordsError as error:
        return f"is damaged ({error})"
    if end != len(data) or last is None or last.kinds[-1:] != (ControlType.SNAPSHOT_FOOTER,):
        return "is cut off"
    return None
