"""Snapshots of the metadata log: Kafka's `.checkpoint` files (KIP-630).

In: records, pieces fetched from a leader. Out: files, pieces of them, decoded batches. Never: a
snapshot under its final name before all of it is on the device.

A file is a row of batches like a segment's, offsets counted from 0: a control batch with
SnapshotHeader, KRaftVersion and Voters, data batches, a control batch with the SnapshotFooter.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from broker.controller.kraft import control
from broker.controller.kraft.batches import StoredBatch, decoded
from broker.controller.kraft.messages import OffsetAndEpoch
from broker.controller.kraft.voters import VoterSet
from broker.disk.port import Disk, File
from broker.log.directories import flush_file
from bus.protocol.records_meta import encode_metadata_record
from bus.records.batch import RecordsError, check_crc, iter_batches
from bus.records.build import build_batch
from bus.records.control import ControlType
from bus.records.record import Record

log = logging.getLogger("broker.controller")

SUFFIX = ".checkpoint"
PART = ".checkpoint.part"
RECORDS_PER_BATCH = 500
"""Keeps a batch of partition records well below what one fetch brings."""

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotDamaged(Exception):
    """The file is not a whole snapshot. The text names the remedy."""


class Snapshots:
    """The snapshots of one directory. Invariant: `_ids` are the whole ones on disk, rising."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._part: tuple[OffsetAndEpoch, File] | None = None
        self._ids: list[OffsetAndEpoch] = []
        for name in disk.listdir(directory):
            if name.endswith(PART):
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
        """Whether it is here, whole."""
        return snapshot in self._ids

    # -- writing ----------------------------------------------------------------------------

    def write(
        self,
        snapshot: OffsetAndEpoch,
        records: Iterable[tuple[object, int]],
        voters: VoterSet | None,
        last_contained_ms: int,
    ) -> int:
        """Write a snapshot of `records` (each with its version); its size in bytes."""
        for _ in self.write_steps(snapshot, records, voters, last_contained_ms):
            pass
        self.finish(snapshot)
        self.finished(snapshot)
        return self.size_of(snapshot)

    def write_steps(
        self,
        snapshot: OffsetAndEpoch,
        records: Iterable[tuple[object, int]],
        voters: VoterSet | None,
        last_contained_ms: int,
    ) -> Iterator[None]:
        """As `write`, a batch at each step; after the last it is ready for `finish`."""
        file = self._begin(snapshot)
        offset = 0
        for rows, is_control in _rows(records, voters, last_contained_ms):
            file.append(
                build_batch(
                    rows,
                    base_offset=offset,
                    partition_leader_epoch=snapshot.epoch,
                    is_control=is_control,
                )
            )
            offset += len(rows)
            yield
        file.close()

    def finish(self, snapshot: OffsetAndEpoch) -> None:
        """On a worker: force what was written, and only then give it its name."""
        path = self._path(snapshot)
        flush_file(self._disk, path + ".part")
        self._disk.rename(path + ".part", path)
        self._disk.flush_directory(self._directory)

    def finished(self, snapshot: OffsetAndEpoch) -> None:
        """It stands under its name."""
        if snapshot not in self._ids:
            self._ids = sorted([*self._ids, snapshot])

    def write_piece(
        self, snapshot: OffsetAndEpoch, position: int, data: bytes | memoryview
    ) -> None:
        """A piece that was fetched; position 0 begins anew."""
        if position == 0 or self._part is None or self._part[0] != snapshot:
            self.abandon()
            self._part = (snapshot, self._begin(snapshot))
        self._part[1].write_at(position, data)

    def complete(self, snapshot: OffsetAndEpoch) -> None:
        """On a worker: all pieces have come, the snapshot gets its name if it is whole."""
        if self._part is None or self._part[0] != snapshot:
            raise SnapshotDamaged(f"no snapshot {snapshot} was being fetched")
        file, self._part = self._part[1], None
        problem = _problem(file.read(0, file.size()))
        file.close()
        if problem:
            self._disk.remove(self._path(snapshot) + ".part")
            raise SnapshotDamaged(f"the fetched snapshot {snapshot} {problem}")
        self.finish(snapshot)

    def abandon(self) -> None:
        """Forget what was being fetched."""
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

    def read_piece(
        self, snapshot: OffsetAndEpoch, position: int, max_bytes: int
    ) -> tuple[bytes, int] | None:
        """(bytes, size of the whole); None if there is no such snapshot."""
        if snapshot not in self._ids:
            return None
        file = self._disk.open(self._path(snapshot))
        try:
            return file.read(position, max_bytes), file.size()
        finally:
            file.close()

    def load(self, snapshot: OffsetAndEpoch) -> Iterator[StoredBatch]:
        """Its batches, decoded. Raises SnapshotDamaged before the first if it is not whole."""
        return decoded(self._whole(snapshot))

    def check(self, snapshot: OffsetAndEpoch) -> None:
        """Raise SnapshotDamaged if it is not whole."""
        self._whole(snapshot)

    def _whole(self, snapshot: OffsetAndEpoch) -> bytes:
        path = self._path(snapshot)
        file = self._disk.open(path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        problem = _problem(data)
        if problem:
            raise SnapshotDamaged(
                f"{path} {problem}; restore it from a backup; or, if other voters have the "
                f"metadata, move {self._directory} away and start again, so that this node "
                "fetches it; nothing was changed"
            )
        return data

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


def _rows(
    records: Iterable[tuple[object, int]], voters: VoterSet | None, last_contained_ms: int
) -> Iterator[tuple[list[Record], bool]]:
    """The records of each batch, and whether it is a control batch."""

    def own(kind: ControlType, value: bytes) -> Record:
        return control.record(kind, value, last_contained_ms)

    first = [own(ControlType.SNAPSHOT_HEADER, control.snapshot_header(last_contained_ms))]
    if voters is not None:
        first.append(own(ControlType.KRAFT_VERSION, control.kraft_version()))
        first.append(own(ControlType.KRAFT_VOTERS, control.voters_record(voters)))
    yield first, True
    for some in _groups(records, RECORDS_PER_BATCH):
        yield (
            [
                Record(None, encode_metadata_record(one, version), timestamp_ms=last_contained_ms)
                for one, version in some
            ],
            False,
        )
    yield [own(ControlType.SNAPSHOT_FOOTER, control.snapshot_footer())], True


def _groups(records: Iterable[tuple[object, int]], size: int) -> Iterator[list[tuple[object, int]]]:
    rows = iter(records)
    while some := list(islice(rows, size)):
        yield some


def _problem(data: bytes) -> str | None:
    """Why these bytes are no whole snapshot."""
    last: StoredBatch | None = None
    end = 0
    try:
        for at, header in iter_batches(data):
            check_crc(data, at)
            end = at + header.size_bytes
            if header.is_control:
                last = next(iter(decoded(data[at:end])))
            else:
                last = None
    except RecordsError as error:
        return f"is damaged ({error})"
    if end != len(data) or last is None or last.kinds[-1:] != (ControlType.SNAPSHOT_FOOTER,):
        return "is cut off"
    return None
