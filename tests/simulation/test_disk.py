"""The simulated disk: what survives the death of a process, and what may survive a power loss."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.disk.port import DirectoryLocked, DiskFull, PathMissing
from tests.simulation.disk import Killed, ProcessDisk, SimDisk
from tests.simulation.loop import START_S, ProcessLife, VirtualLoop


def machine(seed: int = 0) -> SimDisk:
    return SimDisk("m", random.Random(seed), lambda: 0)


def life_on(disk: SimDisk, name: str = "p") -> ProcessDisk:
    return ProcessDisk(disk, ProcessLife(name), random.Random(0))


def test_the_page_cache_survives_a_process_and_its_lock_does_not():
    """After kill -9 the next process finds unflushed bytes."""
    disk = machine()
    first = life_on(disk)
    first.mkdirs("/data")
    first.lock("/data")
    first.open("/data/log", create=True).append(b"unflushed")
    with pytest.raises(DirectoryLocked):
        life_on(disk).lock("/data")
    first._life.die()
    second = life_on(disk, "q")
    second.lock("/data")
    assert second.open("/data/log").read(0, 100) == b"unflushed"
    assert second.boot_id() == first.boot_id()


def test_a_loss_of_power_keeps_what_was_flushed_and_at_most_a_damaged_rest():
    """Over many seeds nothing flushed is lost; lost, torn, holed and whole tails all occur."""
    seen = set()
    for seed in range(200):
        disk = machine(seed)
        process = life_on(disk)
        process.mkdirs("/data")
        file = process.open("/data/log", create=True)
        file.append(b"F" * 5000)
        file.flush()
        for part in (b"a" * 5000, b"b" * 5000):
            file.append(part)
        boot = process.boot_id()
        disk.lose_power()
        left = bytes(disk.files["/data/log"].data)
        assert left[:5000] == b"F" * 5000
        whole = b"F" * 5000 + b"a" * 5000 + b"b" * 5000
        assert len(left) <= len(whole)
        assert life_on(disk).boot_id() != boot
        seen.add("hole" if b"\0" in left else len(left) in (5000, 10000, 15000) and len(left))
    assert seen >= {"hole", False, 5000, 10000, 15000}


def test_an_unflushed_truncation_may_be_undone_and_then_all_after_it():
    """The tail of a divergent follower may return after the power loss."""
    found = set()
    for seed in range(60):
        disk = machine(seed)
        process = life_on(disk)
        process.mkdirs("/data")
        file = process.open("/data/log", create=True)
        file.append(b"0123456789")
        file.flush()
        file.truncate(4)
        file.append(b"xy")
        disk.lose_power()
        found.add(bytes(disk.files["/data/log"].data).rstrip(b"\0"))
    assert {b"0123456789", b"0123", b"0123xy"} <= found


def test_names_become_durable_in_their_order():
    """A rename that survives means that the file made before it survives too."""
    for seed in range(40):
        disk = machine(seed)
        process = life_on(disk)
        process.mkdirs("/data")
        process.flush_directory("/data")
        process.open("/data/a", create=True).append(b"1")
        process.open("/data/new", create=True).append(b"2")
        process.rename("/data/new", "/data/b")
        disk.lose_power()
        if process.exists("/data/b"):
            assert process.exists("/data/a")
    process.replace_text_durably("/data/c", "text")
    disk.lose_power()
    assert process.read_text("/data/c") == "text"


def test_a_full_disk_takes_what_fits_and_refuses():
    """A write raises ENOSPC in its middle."""
    disk = machine()
    process = life_on(disk)
    process.mkdirs("/data")
    file = process.open("/data/log", create=True)
    disk.fill_up(4)
    with pytest.raises(DiskFull):
        file.append(b"123456")
    assert file.size() == 4
    assert process.free_bytes("/data") == 0


def test_a_process_dies_in_mid_operation_and_writes_nothing_after_its_death():
    """The process dies between two writes of one function."""
    disk = machine()
    process = life_on(disk)
    process.mkdirs("/data")
    file = process.open("/data/log", create=True)
    process.die_after = 1
    file.append(b"1")
    for _ in range(2):
        with pytest.raises(Killed):
            file.append(b"2")
    assert process._life.dead
    assert bytes(disk.files["/data/log"].data) == b"1"


def test_directories_are_listed_renamed_and_removed():
    """Covers what the log manager does with a deleted partition."""
    process = life_on(machine())
    process.mkdirs("/data/t-0")
    process.open("/data/t-0/x.log", create=True)
    process.rename("/data/t-0", "/data/t-0.gone-delete")
    assert process.listdir("/data") == ["t-0.gone-delete"]
    process.remove_tree("/data/t-0.gone-delete")
    assert process.listdir("/data") == []
    with pytest.raises(PathMissing):
        process.open("/data/t-0/x.log")


def test_slow_work_takes_virtual_time_only():
    """`run` waits for the device."""
    disk, loop = machine(), VirtualLoop()
    disk.flush_s = (100.0, 100.0)
    begun = loop.time()
    assert loop.run_until_complete(life_on(disk).run(lambda: 7)) == 7
    assert loop.time() - begun >= 100
    loop.close()
    asyncio.set_event_loop(None)


def test_a_flush_that_the_loop_waits_for_stops_its_process_and_one_on_a_worker_only_its_queue():
    """On the loop the next step of that process runs when the device is done; other processes and
    other workers continue."""
    disk, loop, order = machine(), VirtualLoop(), []
    disk.flush_s = (5.0, 5.0)
    process, other = life_on(disk), life_on(disk, "other")
    process.mkdirs("/data")
    file = process.open("/data/log", create=True)

    def note(what: str) -> None:
        order.append((what, round(loop.time() - START_S)))

    async def works() -> None:
        slow = [asyncio.ensure_future(process.run(file.flush, worker="a")) for _ in range(2)]
        beside = asyncio.ensure_future(process.run(note, "another worker", worker="b"))
        note("the loop goes on")
        await asyncio.gather(*slow, beside)
        note("both are flushed")
        file.flush()
        await asyncio.sleep(0)
        note("the loop stood still")

    async def waits() -> None:
        await asyncio.sleep(12)
        note("somebody else")

    async def story() -> None:
        tasks = [
            loop.create_task(works(), context=process._life.context),
            loop.create_task(waits(), context=other._life.context),
        ]
        await asyncio.gather(*tasks)

    loop.run_until_complete(story())
    loop.close()
    asyncio.set_event_loop(None)
    assert order == [
        ("the loop goes on", 0), ("another worker", 5), ("both are flushed", 10),
        ("somebody else", 12), ("the loop stood still", 15),
    ]  # fmt: skip
