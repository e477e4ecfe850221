"""The disk of the watch's own file is full: people and the topic are told all the same, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from watch_world import QUICK, WatchWorld, until

from bus.notify.notifiers import LogNotifier, NotifierError
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.small_disk import ResizableDisk
from monitor.ports import ProcessStatus
from monitor.watch.heartbeat import LIMIT_MS, read_heartbeat, write_heartbeat
from tests.own_disk import own_disk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SIZE_BYTES, LARGE_BYTES = 6 << 20, 16 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ResizableDisk]:
    with own_disk(tmp_path / "disk", SIZE_BYTES) as mounted:
        yield mounted


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def fill(disk: ResizableDisk) -> None:
    """Until not a byte is free."""
    with suppress(OSError), open(disk.folder / "filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    assert disk.free_bytes == 0


async def test_what_opens_and_ends_while_the_disk_is_full_is_told_once_and_kept_afterwards(
    broker: RunningBroker, disk: ResizableDisk
) -> None:
    """Notices lay in the file that could not be written: nobody heard that the disk was full."""
    world = WatchWorld(BusSettings(bootstrap_servers=broker.bootstrap), disk.folder / "var")
    world.processes = [ProcessStatus(role="streams", state="running")]
    async with world.watched():
        await asyncio.sleep(1)
        await asyncio.to_thread(fill, disk)
        await until(lambda: any(one.startswith("filling:disk") for one in world.subjects()))
        world.processes = [ProcessStatus(role="streams", state="failed")]
        await until(lambda: "away:streams:open" in world.subjects())
        await until(lambda: {"away", "filling"} <= {one.kind for one in world.on_topic()})
        world.processes = [ProcessStatus(role="streams", state="running")]
        await until(lambda: "away:streams:closed" in world.subjects())
        sign = QUICK.heartbeat_path(world.site)
        assert read_heartbeat(sign, now_ms()) == ""
        disk.resize(LARGE_BYTES)
        await until(lambda: world.states_in_file("away:streams") == ["open", "closed"])
        await until(lambda: world.waiting_in_file() == 0)
    assert len(world.notifier.subjects) == len(set(world.notifier.subjects))
    world.close()


async def test_a_line_that_a_full_disk_cut_spoils_no_other(disk: ResizableDisk) -> None:
    """The attempt fails, and the next one begins a line of its own."""
    notifier = LogNotifier(disk.folder / "log" / "alarms.log")
    body = json.dumps({"text": "x" * 3000}).encode()
    await notifier.send("a", body)
    disk.leave(4096)
    with pytest.raises((OSError, NotifierError)):
        for _ in range(10):
            await notifier.send("b", body)
    disk.resize(LARGE_BYTES)
    await notifier.send("c", body)
    lines = (disk.folder / "log" / "alarms.log").read_bytes().splitlines()
    assert lines[-1] == body


def test_on_a_full_disk_the_watch_still_gives_a_sign_of_life(disk: ResizableDisk) -> None:
    """The old file with the time of now: its room is taken already."""
    path = disk.folder / "heartbeat.json"
    write_heartbeat(path, now_ms() - 10 * LIMIT_MS, 0, 0)
    fill(disk)
    write_heartbeat(path, now_ms(), 0, 0)
    assert read_heartbeat(path, now_ms()) == ""
