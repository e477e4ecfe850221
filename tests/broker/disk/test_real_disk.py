"""The production disk does what the port promises."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.disk.port import (
    DirectoryLocked,
    Disk,
    DiskError,
    DiskFull,
    File,
    PathMissing,
    WouldBlock,
)
from broker.disk.real import PROBED_FROM_BYTES, RealDisk, RealFile
from broker.disk.real_guard import REFUSE
from broker.disk.workers import MAX_NAMED, Workers
from bus.errors import CheckFailed


@pytest.fixture
def disk() -> Disk:
    return RealDisk()


@pytest.fixture
def file(disk: Disk, tmp_path: Path) -> File:
    return disk.open(str(tmp_path / "f"), create=True)


def test_appends_go_to_the_end_whatever_was_written_or_cut_before(file: File) -> None:
    file.append(b"0123456789")
    file.write_at(2, b"ab")
    file.append(memoryview(b"XY"))
    assert file.read(0, 100) == b"01ab456789XY"
    file.truncate(3)
    file.append(bytearray(b"Z"))
    assert (file.read(0, 100), file.size()) == (b"01aZ", 4)


def test_reads_are_short_only_at_the_end(file: File) -> None:
    file.append(b"0123456789")
    assert file.read(8, 5) == b"89"
    assert file.read(10, 5) == b""
    assert file.read(7, 4) == b"789"
    file.flush()


def test_closing_twice_is_nothing_and_using_it_afterwards_an_error(file: File) -> None:
    file.close()
    file.close()
    with pytest.raises(DiskError):
        file.read(0, 1)


def test_a_missing_file_is_typed(disk: Disk, tmp_path: Path) -> None:
    for action in (disk.open, disk.listdir, disk.size_of, disk.read_text, disk.modified_ms):
        with pytest.raises(PathMissing):
            action(str(tmp_path / "none"))
    disk.remove(str(tmp_path / "none"))
    disk.remove_tree(str(tmp_path / "none"))


def test_text_is_replaced_as_a_whole(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "text")
    disk.replace_text_durably(path, "one\n" * 1000)
    disk.replace_text_durably(path, "二\n")
    assert disk.read_text(path) == "二\n"
    assert disk.listdir(str(tmp_path)) == ["text"]


def test_names_directories_and_sizes(disk: Disk, tmp_path: Path) -> None:
    disk.mkdirs(str(tmp_path / "a/b"))
    disk.mkdirs(str(tmp_path / "a/b"))
    disk.open(str(tmp_path / "a/x"), create=True).append(b"123")
    assert disk.listdir(str(tmp_path / "a")) == ["b", "x"]
    assert disk.size_of(str(tmp_path / "a/x")) == 3
    disk.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert not disk.exists(str(tmp_path / "a"))
    assert disk.exists(str(tmp_path / "c/x"))
    disk.remove_tree(str(tmp_path / "c"))
    assert disk.listdir(str(tmp_path)) == []
    assert disk.total_bytes(str(tmp_path)) >= disk.free_bytes(str(tmp_path)) > 0


def test_a_lock_is_held_by_one_and_freed_by_release(disk: Disk, tmp_path: Path) -> None:
    lock = disk.lock(str(tmp_path))
    with pytest.raises(DirectoryLocked, match="in use"):
        disk.lock(str(tmp_path))
    lock.release()
    disk.lock(str(tmp_path)).release()


def test_slow_work_runs_on_another_thread(disk: Disk) -> None:
    assert asyncio.run(disk.run(threading.get_ident)) != threading.get_ident()


_FILLS_UP = """
import resource, signal, sys
from broker.disk.port import DiskFull
from broker.disk.real import RealDisk
from broker.disk.workers import MAX_NAMED, Workers
from bus.errors import CheckFailed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
file = RealDisk().open(sys.argv[1], create=True)
file.append(b"x" * 900)
try:
    file.append(b"y" * 900)
except DiskFull:
    print("full at", file.size())
file.truncate(900)
file.append(b"z" * 50)
print("goes on at", file.size())
"""


def test_a_write_the_system_takes_only_in_part_is_disk_full_and_can_be_cut(tmp_path: Path) -> None:
    """The kernel really refuses the write (a file size limit replaces the full disk)."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", _FILLS_UP, str(tmp_path / "f")], capture_output=True, text=True,
        cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["full at 1000", "goes on at 950"], done.stderr


def test_dev_full_is_a_full_disk(disk: Disk) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with pytest.raises(DiskFull):
        disk.open("/dev/full").append(b"x")


def test_no_room_at_a_flush_is_no_full_disk(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk has all that was written before; a flush that fails may have lost it."""

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fdatasync", refuse)
    file.append(b"x")
    with pytest.raises(DiskError, match="no space left") as caught:
        file.flush()
    assert not isinstance(caught.value, DiskFull)


def test_calls_of_one_worker_keep_their_order_and_stall_no_other(tmp_path: Path) -> None:
    disk, gate, order = RealDisk(), threading.Event(), []

    async def calls() -> None:
        held = [
            asyncio.ensure_future(disk.run(gate.wait, worker="/one")),
            asyncio.ensure_future(disk.run(order.append, "behind", worker="/one")),
        ]
        await disk.run(order.append, "beside", worker="/other")
        await disk.run(order.append, "shared")
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(calls())
    assert order == ["beside", "shared", "behind"]


def test_more_workers_than_threads_share_them_and_keep_their_order() -> None:
    workers = Workers()
    names = [f"/directory-{number}" for number in range(3 * MAX_NAMED)]
    first = [workers.of(name) for name in names]
    assert [workers.of(name) for name in names] == first
    assert len(set(map(id, first))) == MAX_NAMED


@pytest.mark.parametrize("what", ["flush", "flush_directory", "replace_text_durably"])
def test_a_flush_on_the_serving_thread_is_refused_and_one_on_a_worker_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv(REFUSE, "1")
    disk = RealDisk()
    file = disk.open(f"{tmp_path}/a", create=True)
    call: Callable[[], None] = {
        "flush": file.flush,
        "flush_directory": lambda: disk.flush_directory(str(tmp_path)),
        "replace_text_durably": lambda: disk.replace_text_durably(f"{tmp_path}/b", "text"),
    }[what]
    call()
    disk.begin_service()
    with pytest.raises(CheckFailed, match="on the thread that serves"):
        call()
    asyncio.run(disk.run(call))
    disk.end_service()
    call()


def test_no_flush_is_refused_in_production(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REFUSE, raising=False)
    disk = RealDisk()
    disk.begin_service()
    disk.flush_directory(str(tmp_path))


def cold_file(tmp_path: Path, size: int) -> tuple[RealFile, bytes]:
    """A file whose bytes are on the device only; skips where no such thing can be made."""
    content = os.urandom(size)
    path = f"{tmp_path}/cold"
    file = RealDisk().open(path, create=True)
    file.append(content)
    file.flush()
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        os.preadv(fd, [bytearray(1)], size - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return file, content
    except OSError as error:
        pytest.skip(f"{tmp_path}: this file system does not tell what is in memory: {error}")
    finally:
        os.close(fd)
    pytest.skip(f"{tmp_path}: the system keeps the file in memory")


@pytest.mark.parametrize("size", [10_000, PROBED_FROM_BYTES + 5000])
def test_a_read_of_what_is_not_in_memory_does_not_wait_for_the_device(
    tmp_path: Path, size: int
) -> None:
    """Once another handle has read it, it is there."""
    file, content = cold_file(tmp_path, size)
    with pytest.raises(WouldBlock) as caught:
        file.read_now(0, size)
    waiting = caught.value
    assert (waiting.path, waiting.position, waiting.size) == (file.path, 0, size)
    pinned = file.pin()
    file.close()
    os.unlink(file.path)
    assert pinned.read(0, size) == content
    assert pinned.read_now(0, size) == content


def test_a_read_now_ends_where_the_file_ends(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append(b"0123456789")
    assert file.read_now(4, 100) == b"456789"
    assert file.read_now(10, 5) == b""
    with pytest.raises(DiskError):
        RealFile("closed", -1).read_now(0, 1)


def test_a_disk_in_memory_counts_as_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It does not support the query (EOPNOTSUPP) and is not asked again."""
    asked = []

    def preadv(*_arguments: object) -> int:
        asked.append(1)
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", preadv)
    file = RealDisk().open(f"{tmp_path}/a", create=True)
    file.append(b"abc")
    assert [file.read_now(0, 3), file.read_now(1, 2)] == [b"abc", b"bc"]
    assert asked == [1]
