"""A failure of anything in the background is logged with its trace and ends the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bus.errors import CheckFailed, check
from bus.runtime import tasks
from bus.runtime.tasks import FAILED_STATUS, in_slices

ROOT = Path(__file__).parents[3]

PROCESS = """
import asyncio, logging, sys, threading, time
import uvloop
from bus.runtime import tasks
from bus.errors import check

logging.basicConfig()

def boom():
    check(False, "planted")

def bug():
    raise KeyError("planted")

async def in_a_task():
    boom()

async def main():
    loop = asyncio.get_running_loop()
    {plant}
    await asyncio.Event().wait()

tasks.run(main(), loop_factory={loop})
"""

PLANTS = {
    "task": "kept = tasks.spawn(in_a_task(), name='a task')",
    "task awaited by somebody who hears only Exceptions": """
    kept = tasks.spawn(in_a_task(), name='a task')
    try:
        await kept
    except Exception:
        pass""",
    "timer": "loop.call_later(0, bug)",
    "callback": "loop.call_soon(bug)",
    "callback of another thread": "threading.Thread(target=loop.call_soon_threadsafe, args=(bug,)).start()",
    "thread": "threading.Thread(target=bug, name='worker').start()",
    "executor future that nobody awaits": "loop.run_in_executor(None, bug)",
    "gather with return_exceptions": """
    gathered = tasks.spawn(in_a_task(), name='one of many')
    await asyncio.gather(gathered, return_exceptions=True)""",
    "main coroutine": "boom()",
    "task beside a thread that never ends": """
    threading.Thread(target=time.sleep, args=(0.2,)).start()
    kept = tasks.spawn(in_a_task(), name='a task')""",
}


@pytest.mark.parametrize("loop", ["uvloop.new_event_loop", "None"])
@pytest.mark.parametrize("plant", PLANTS)
def test_a_process_ends_when_a_part_of_it_fails(plant: str, loop: str):
    """Every kind of part ends it with the status and a traceback in the log."""
    script = PROCESS.format(plant=PLANTS[plant], loop=loop)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == FAILED_STATUS, done.stderr
    assert "this process ends" in done.stderr
    assert "Traceback" in done.stderr
    assert "planted" in done.stderr


def run_supervised(main, end_process=lambda _: None) -> int:
    """The status with which a process of this main coroutine ends."""
    try:
        tasks.run(main(), end_process=end_process)
    except SystemExit as end:
        return int(str(end.code))
    return 0


class Peer(asyncio.Protocol):
    """A server's side of a connection that fails on its first bytes."""

    raised: type[BaseException] = ValueError

    def data_received(self, data: bytes) -> None:
        raise self.raised("planted")


async def talk_to(protocol: type[Peer]) -> bytes:
    """Sends a byte; returns the answer, b"" if the connection is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"?")
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        server.close()


def test_the_bytes_of_a_peer_end_its_connection_only(caplog):
    """They would be sent again after every restart."""

    async def main() -> None:
        assert await talk_to(Peer) == b""
        assert await talk_to(Peer) == b""

    assert run_supervised(main) == 0
    assert caplog.text.count("planted") >= 2


def test_a_failed_check_ends_the_process_even_in_a_connection(caplog):
    """The check shows that this process, not the peer, is wrong."""

    class Failing(Peer):
        raised = CheckFailed

    async def main() -> None:
        await talk_to(Failing)
        await asyncio.Event().wait()

    assert run_supervised(main) == FAILED_STATUS
    assert "this process ends" in caplog.text


def test_what_fails_in_the_code_of_others_is_logged_and_no_more(caplog):
    """A library's task that lost its websocket is not a failure of this process."""

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ConnectionResetError("planted"))
        del future
        await asyncio.sleep(0)

    assert run_supervised(main) == 0
    assert "planted" in caplog.text


def test_a_cancelled_task_is_not_a_failure():
    """Every clean stop cancels tasks."""

    async def main() -> None:
        task = tasks.spawn(asyncio.Event().wait(), name="waiting")
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))

    assert run_supervised(main) == 0


def test_a_failed_process_that_does_not_end_is_cut_off(monkeypatch):
    """A `finally` that waits for ever must not keep it running."""
    monkeypatch.setattr(tasks, "END_TIMEOUT_S", 0.01)
    end_process = threading.Event()
    statuses: list[int] = []

    def end(status: int) -> None:
        statuses.append(status)
        end_process.set()

    async def fail() -> None:
        check(False, "planted")

    async def main() -> None:
        try:
            tasks.spawn(fail(), name="failing")
            await asyncio.Event().wait()
        finally:
            while not end_process.is_set():
                await asyncio.sleep(0)

    assert run_supervised(main, end) == FAILED_STATUS
    assert statuses == [FAILED_STATUS]


def test_threads_are_heard_only_while_the_process_is_supervised():
    """A second process in the same interpreter handles its own threads."""
    before = threading.excepthook

    async def main() -> None:
        assert threading.excepthook != before

    assert run_supervised(main) == 0
    assert threading.excepthook is before


def test_no_except_exception_hears_a_failed_check():
    """Otherwise a handler's catch-all would keep a process with inconsistent state running."""
    with pytest.raises(CheckFailed):
        try:
            check(False, "planted")
        except Exception:
            pytest.fail("swallowed")


async def test_a_long_loop_in_slices_lets_others_run_between_them_and_sees_all() -> None:
    """What comes into the collection meanwhile is not in it."""
    numbers = list(range(100))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    seen = []
    async for one in in_slices(numbers, 10):
        numbers.append(one)
        seen.append(one)
    other.cancel()
    assert seen == list(range(100))
    assert turns >= 10
