"""A full disk: appends get Kafka's own error, logs stay consistent and continue when there is
room."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from broker.config.views import TopicConfig
from broker.disk.port import Buffer, DiskError, DiskFull
from broker.disk.real import RealDisk, RealFile
from broker.log.errors import LogError
from broker.log.log import Log
from bus.errors import ErrorCode
from bus.records.batch import iter_batches

NOW_MS = 1_760_000_000_000
Batch = Callable[..., bytearray]


class BoundedDisk(RealDisk):
    """The real disk with a bound on how much may still be written: after it, ENOSPC mid-write."""

    def __init__(self) -> None:
        super().__init__()
        self.room_bytes = 1 << 40
        self.may_truncate = True

    def open(self, path: str, *, create: bool = False) -> RealFile:
        return _BoundedFile(super().open(path, create=create), self)


class _BoundedFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, file: RealFile, disk: BoundedDisk) -> None:
        super().__init__(file.path, file._fd)
        self._disk = disk

    def append(self, data: Buffer) -> None:
        fits = min(len(data), self._disk.room_bytes)
        self._disk.room_bytes -= fits
        super().append(bytes(data[:fits]))
        if fits < len(data):
            raise DiskFull("no room", errno.ENOSPC)

    def truncate(self, size: int) -> None:
        if not self._disk.may_truncate:
            raise DiskError("not now", errno.EIO)
        super().truncate(size)


@pytest.fixture
def disk() -> Iterator[BoundedDisk]:
    return BoundedDisk()


def open_log(disk: RealDisk, directory: str, **settings: int) -> Log:
    config = replace(TopicConfig(), **settings)  # type: ignore[arg-type]
    return Log(f"{directory}/t-0", disk=disk, config=config, now_ms=NOW_MS)


def offsets(log: Log) -> list[int]:
    return [h.base_offset for _, h in iter_batches(log.read(0, 1 << 20).data)]


@pytest.mark.parametrize("room", [0, 1, 60, 61, 75, 78])
def test_a_torn_append_is_cut_back_and_the_next_one_succeeds_when_there_is_room(
    disk: BoundedDisk, fast_dir: str, batch: Batch, room: int
) -> None:
    log = open_log(disk, fast_dir)
    log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    disk.room_bytes = room
    with pytest.raises(LogError) as caught:
        log.append(
            batch(1, producer_id=1, producer_epoch=0, base_sequence=0), leader_epoch=0, now_ms=NOW_MS
        )
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, offsets(log)) == (1, [0])
    disk.room_bytes = 1 << 40
    again = batch(1, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.append(again, leader_epoch=0, now_ms=NOW_MS).base_offset == 1
    log.release()
    assert offsets(open_log(RealDisk(), fast_dir)) == [0, 1]


def test_a_tail_that_cannot_be_cut_at_once_is_cut_before_the_next_append(
    disk: BoundedDisk, fast_dir: str, batch: Batch
) -> None:
    log = open_log(disk, fast_dir)
    log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    disk.room_bytes, disk.may_truncate = 30, False
    for _ in range(2):
        with pytest.raises(LogError):
            log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    assert offsets(log) == [0]
    disk.room_bytes, disk.may_truncate = 1 << 40, True
    log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    assert offsets(log) == [0, 1]
    log.release()
    assert offsets(open_log(RealDisk(), fast_dir)) == [0, 1]


def test_a_disk_that_fills_up_during_a_roll_loses_nothing(
    disk: BoundedDisk, fast_dir: str, batch: Batch
) -> None:
    log = open_log(disk, fast_dir, segment_bytes=500, index_interval_bytes=0)
    stored, codes = 0, set[ErrorCode]()
    for room in [10_000, *range(0, 400, 7), 1 << 40]:
        disk.room_bytes = room
        for _ in range(3):
            try:
                log.append(batch(1, size=90), leader_epoch=0, now_ms=NOW_MS)
                stored += 1
            except LogError as error:
                codes.add(error.code)
    assert codes == {ErrorCode.KAFKA_STORAGE_ERROR}
    found, offset = [], 0
    while offset < log.end_offset:
        found += [h.base_offset for _, h in iter_batches(log.read(offset, 1 << 20).data)]
        offset = found[-1] + 1
    assert found == list(range(stored))
    log.release()
    assert open_log(RealDisk(), fast_dir, segment_bytes=500).end_offset == stored


def test_a_short_or_damaged_read_is_an_error_of_that_read_only(
    disk: BoundedDisk, fast_dir: str, batch: Batch
) -> None:
    log = open_log(disk, fast_dir)
    for _ in range(3):
        log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
    with open(log.active_segment.path, "r+b") as file:
        whole = file.read()
        file.truncate(len(whole) - 20)
    assert offsets(log) == [0, 1]
    with open(log.active_segment.path, "r+b") as file:
        file.write(bytes(len(whole)))
    log.active_segment.forget_cursors()
    with pytest.raises(LogError) as caught:
        log.read(1, 100)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
