"""The spool: durable, in sequence, bounded, and whole after a crash at any byte."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.spool import Spool, SpoolEntry, SpoolFull

MANY = 1 << 30


def entry(number: int, size: int = 20, tally: str = "vehicle/accepted") -> SpoolEntry:
    return SpoolEntry(
        topic="data.vehicle", key=None if number % 3 else b"key", value=f"{number}:".encode() + b"x" * size,
        headers=[("record-id", str(number).encode())], timestamp_ms=number, tally=tally,
    )  # fmt: skip


def drain(spool: Spool) -> list[SpoolEntry]:
    found: list[SpoolEntry] = []
    while queued := spool.read(7):
        assert [q.sequence for q in queued] == list(
            range(queued[0].sequence, queued[0].sequence + len(queued))
        )
        found += [q.entry for q in queued]
    return found


async def test_what_was_appended_is_read_in_order_and_counted(tmp_path: Path):
    """Messages come out as they went in, across many small segments."""
    spool = Spool(tmp_path, max_bytes=MANY, segment_bytes=500)
    entries = [entry(i) for i in range(100)]
    for at in range(0, 100, 5):
        await spool.append(entries[at : at + 5])
    assert drain(spool) == entries
    assert spool.totals == {"vehicle/accepted": 100}
    assert len(list(tmp_path.glob("*.spool"))) > 5
    spool.close()


async def test_appends_of_many_senders_share_an_fsync_and_keep_their_own_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A hundred concurrent senders need far fewer than a hundred fsyncs."""
    calls = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (calls.append(fd), real(fd))[1])
    spool = Spool(tmp_path, max_bytes=MANY)
    await asyncio.gather(*(spool.append([entry(i * 10 + k) for k in range(3)]) for i in range(100)))
    found = [e.timestamp_ms for e in drain(spool)]
    assert sorted(found) == sorted(i * 10 + k for i in range(100) for k in range(3))
    assert all(found[at + 1] == found[at] + 1 for at in range(0, 300, 3))
    assert len(calls) < 50
    spool.close()


async def test_each_message_wakes_a_waiting_forwarder_once(tmp_path: Path):
    """One that has as much under way as it may does not read, and span over the same one for as long
    as the bus was away."""
    spool = Spool(tmp_path, max_bytes=MANY)
    await spool.append([entry(0)])
    assert spool.wait(60)
    assert not spool.wait(0)
    spool.wake()
    assert spool.wait(60)
    assert not spool.wait(0)
    assert [q.sequence for q in spool.read(5)] == [0]
    spool.close()


async def test_acknowledged_segments_are_deleted_and_the_rest_is_sent_again_after_a_restart(
    tmp_path: Path,
):
    """Only what the bus has is forgotten; totals outlive the deleted files."""
    spool = Spool(tmp_path, max_bytes=MANY, segment_bytes=500)
    for i in range(50):
        await spool.append([entry(i, tally="face/accepted" if i % 2 else "face/rejected")])
    drain(spool)
    spool.acknowledge(30)
    spool.close()
    assert min(tmp_path.glob("*.spool")).name > "0" * 20
    again = Spool(tmp_path, max_bytes=MANY, segment_bytes=500)
    assert [e.timestamp_ms for e in drain(again)] == list(range(30, 50))
    assert (again.end_sequence, again.drained_sequence) == (50, 30)
    assert again.totals == {"face/accepted": 25, "face/rejected": 25}
    again.close()


async def test_a_rewind_gives_everything_unacknowledged_once_more(tmp_path: Path):
    """What a failed producer had in flight is read again, in the same order."""
    spool = Spool(tmp_path, max_bytes=MANY, segment_bytes=300)
    await spool.append([entry(i) for i in range(10)])
    await spool.append([entry(i) for i in range(10, 20)])
    drain(spool)
    spool.acknowledge(4)
    spool.rewind()
    assert [e.timestamp_ms for e in drain(spool)] == list(range(4, 20))
    spool.close()


async def test_a_message_larger_than_a_read_is_read_whole(tmp_path: Path):
    """Five megabytes are returned in one piece."""
    spool = Spool(tmp_path, max_bytes=MANY)
    await spool.append([entry(1), entry(2, size=5_000_000), entry(3)])
    assert [len(e.value) for e in drain(spool)] == [22, 5_000_002, 22]
    spool.close()


async def test_a_full_spool_refuses_whole_requests_until_it_is_drained(tmp_path: Path):
    """At the stated bound no part of the request is accepted; draining makes room."""
    spool = Spool(tmp_path, max_bytes=20_000)
    taken = 0
    with pytest.raises(SpoolFull) as refused:
        for _ in range(1000):
            await spool.append([entry(i) for i in range(3)])
            taken += 3
    assert refused.value.retry_after_s > 0
    assert spool.end_sequence == taken
    assert spool.bytes_on_disk <= 20_000
    drain(spool)
    spool.acknowledge(taken)
    await spool.append([entry(i) for i in range(3)])
    assert len(drain(spool)) == 3
    spool.close()


async def test_too_little_free_disk_refuses_too(tmp_path: Path):
    """The spool leaves free space for other users of the disk."""
    spool = Spool(tmp_path, max_bytes=MANY, min_free_bytes=1 << 60)
    with pytest.raises(SpoolFull, match="free"):
        await spool.append([entry(1)])
    spool.close()


def test_a_disk_error_refuses_the_group_and_the_next_one_goes_on(tmp_path: Path):
    """A real write error (file size limit): refused, cut, and taken again when there is room."""
    script = """
import asyncio, resource, sys
from pathlib import Path
from ingest.spool import SpoolEntry, Spool, SpoolFull
def entry(n, size): return SpoolEntry(topic="t", key=None, value=b"x" * size, headers=[], timestamp_ms=n, tally="a")
async def main():
    spool = Spool(Path(sys.argv[1]), max_bytes=1 << 30)
    await spool.append([entry(1, 10)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    try:
        await spool.append([entry(2, 9000)])
    except SpoolFull as error:
        print("refused", error)
    await spool.append([entry(3, 10)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await spool.append([entry(4, 9000)])
    print([q.entry.timestamp_ms for q in spool.read(10)])
    spool.close()
asyncio.run(main())
"""
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "refused the disk did not take it" in result.stdout
    assert result.stdout.endswith("[1, 3, 4]\n")


ROOT = Path(__file__).resolve().parents[3]


async def _whole_spool(folder: Path) -> bytes:
    spool = Spool(folder, max_bytes=MANY)
    for i in range(4):
        await spool.append([entry(i, size=i)])
    spool.close()
    return next(folder.glob("*.spool")).read_bytes()


async def test_a_torn_tail_is_cut_at_any_byte(tmp_path: Path):
    """With any length of the newest file after a crash: whole messages stay, and it can be
    appended to."""
    data = await _whole_spool(tmp_path / "whole")
    name = next((tmp_path / "whole").glob("*.spool")).name
    last = -1
    for length in range(len(data) + 1):
        folder = tmp_path / "torn"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        (folder / name).write_bytes(data[:length])
        spool = Spool(folder, max_bytes=MANY)
        found = [e.timestamp_ms for e in drain(spool)]
        assert found == list(range(len(found)))
        assert len(found) >= last
        last = len(found)
        if length % 40 == 0:
            await spool.append([entry(77)])
            assert [e.timestamp_ms for e in drain(spool)] == [77]
        spool.close()
    assert last == 4


async def test_garbage_after_the_last_message_is_never_a_message(tmp_path: Path):
    """Zeros and random bytes behind the tail (a file grown before its data came) are cut."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    data = await _whole_spool(tmp_path / "whole")
    for tail in (b"\0" * 100, rng.randbytes(100), data[: len(data) // 2][-50:]):
        folder = tmp_path / f"garbage-{len(tail)}-{tail[:2].hex()}"
        folder.mkdir()
        (folder / f"{0:020d}.spool").write_bytes(data + tail)
        spool = Spool(folder, max_bytes=MANY)
        assert len(drain(spool)) == 4
        spool.close()


async def test_damage_inside_a_sealed_segment_is_counted_and_the_rest_goes_on(tmp_path: Path):
    """Bit rot loses what it hits, says how much, and nothing behind it."""
    spool = Spool(tmp_path, max_bytes=MANY, segment_bytes=400)
    for i in range(40):
        await spool.append([entry(i)])
    spool.close()
    first, second, *_ = sorted(tmp_path.glob("*.spool"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 0x55
    first.write_bytes(data)
    again = Spool(tmp_path, max_bytes=MANY, segment_bytes=400)
    found: list[int] = []
    while queued := again.read(10):
        found += [q.sequence for q in queued]
    assert again.damaged > 0
    assert len(found) + again.damaged == 40
    assert found[-1] == 39
    assert int(second.stem) in found
    again.close()


async def test_a_lost_position_sends_again_and_loses_nothing(tmp_path: Path):
    """Duplicates are harmless (the identity stays), loss is not."""
    spool = Spool(tmp_path, max_bytes=MANY)
    await spool.append([entry(i) for i in range(5)])
    spool.acknowledge(3)
    spool.close()
    (tmp_path / "position").write_bytes(b"\0\0")
    again = Spool(tmp_path, max_bytes=MANY)
    assert len(drain(again)) == 5
    again.close()


def test_two_processes_cannot_share_a_spool(tmp_path: Path):
    """Both would send everything."""
    spool = Spool(tmp_path, max_bytes=MANY)
    with pytest.raises(RuntimeError, match="in use"):
        Spool(tmp_path, max_bytes=MANY)
    spool.close()


_APPENDER = """
import asyncio, sys
from pathlib import Path
from ingest.spool import SpoolEntry, Spool
async def one(spool, lane):
    n = 0
    while True:
        await spool.append([SpoolEntry(topic="t", key=None, value=b"y" * 300, headers=[], timestamp_ms=n,
                                  tally=f"lane-{lane}") for _ in range(2)])
        print(lane, n, flush=True)
        n += 1
async def main():
    spool = Spool(Path(sys.argv[1]), max_bytes=1 << 30, segment_bytes=50_000)
    await asyncio.gather(*(one(spool, lane) for lane in range(8)))
asyncio.run(main())
"""


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path):
    """A real process is killed while eight senders append; every answer it gave is kept."""
    process = subprocess.Popen(
        [sys.executable, "-c", _APPENDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    answered = [process.stdout.readline() for _ in range(400)]
    process.send_signal(signal.SIGKILL)
    answered += process.stdout.read().splitlines(keepends=True)
    process.wait()
    promised = {tuple(map(int, line.split())) for line in answered if line.endswith("\n")}
    spool = Spool(tmp_path, max_bytes=MANY)
    kept: dict[tuple[int, int], int] = {}
    for e in drain(spool):
        place = (int(e.tally.removeprefix("lane-")), e.timestamp_ms)
        kept[place] = kept.get(place, 0) + 1
    assert len(promised) >= 400
    assert {place for place in promised if kept.get(place, 0) < 2} == set()
    assert sum(spool.totals.values()) == spool.end_sequence
    spool.close()
