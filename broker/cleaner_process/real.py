"""The child process of production: started by the broker, spoken to over a pipe.

In: requests. Out: their reports. Never: a process without work for longer than a minute; one that
is started again without a rest after it has died several times.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from msgspec import Raw

from broker.cleaner_process.messages import (
    MAX_LINE_BYTES,
    Answer,
    CancelRequest,
    MessageError,
    Order,
    RateRequest,
    RequestEnd,
    RequestReport,
    RunRequest,
    answer_of,
    encode,
)
from broker.cleaner_process.port import FailureKind, RequestFailed
from bus.runtime import tasks

log = logging.getLogger("broker.cleaner_process")

IDLE_S = 60.0
"""Without work for so long the process ends: its interpreter alone is twenty megabytes."""

END_TIMEOUT_S = 5.0
"""A process whose pipe has closed ends at once; one that hangs in the kernel is killed."""

FIRST_REST_S, MAX_REST_S = 1.0, 60.0
"""After a death; doubled by each further one until a request has ended well."""

CHILD_ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": str(16 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
}
"""Memory that was given back is kept for the next piece of a log. Without this the kernel clears
the pages of each piece anew, a tenth of a pass."""

_ROOT = str(Path(__file__).parents[2])


class ChildProcess:
    """One running process. Invariant: every request under way has a queue, and a ``RequestEnd``."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: asyncio.WriteTransport) -> None:
        self._process = process
        self._pipe = pipe
        self._queues: dict[int, asyncio.Queue[Answer]] = {}
        self.is_dead = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_idle(self) -> bool:
        return not self._queues

    def send(self, order: Order) -> None:
        if not self._pipe.is_closing():
            self._pipe.write(encode(order))

    def begin(self, number: int, request: bytes) -> asyncio.Queue[Answer]:
        """Where its answers arrive."""
        queue: asyncio.Queue[Answer] = asyncio.Queue()
        self._queues[number] = queue
        self.send(RunRequest(number, Raw(request)))
        return queue

    async def cancel(self, number: int) -> None:
        """Nobody listens any more: wait until it does nothing."""
        queue = self._queues.get(number)
        if queue is not None:
            self.send(CancelRequest(number))
            while not isinstance(await queue.get(), RequestEnd):
                continue

    def on_answer(self, answer: Answer) -> None:
        queue = self._queues.get(answer.number)
        if queue is not None:
            queue.put_nowait(answer)
        if isinstance(answer, RequestEnd):
            self._queues.pop(answer.number, None)

    def on_death(self, why: str) -> None:
        self.is_dead = True
        for number in list(self._queues):
            self.on_answer(RequestEnd(number, FailureKind.DIED, why))

    async def end(self) -> int:
        """Close its pipe, wait until it is gone, kill it if that takes long; its exit status."""
        self._pipe.close()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(None, self._process.wait, END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return await loop.run_in_executor(None, self._process.wait)


class RealCleanerProcess:
    """Implements ``cleaner_process.port.CleanerProcess``. Invariant: at most one child runs."""

    def __init__(self, module: str) -> None:
        """``module`` is run as a script, and calls ``real_child.serve``."""
        self._module = module
        self._child: ChildProcess | None = None
        self._starting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._bytes_per_second = 0.0
        self._next_number = 0
        self._deaths = 0
        self._rests_until = 0.0
        self._is_stopped = False

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return self._child.pid if self._child is not None else None

    async def run(self, request: bytes) -> AsyncGenerator[bytes, None]:
        if len(request) > MAX_LINE_BYTES // 2:
            raise RequestFailed(FailureKind.REFUSED, f"a request of {len(request)} bytes")
        child = await self._running()
        number, self._next_number = self._next_number, self._next_number + 1
        queue = child.begin(number, request)
        try:
            while isinstance(answer := await queue.get(), RequestReport):
                yield bytes(answer.body)
        finally:
            await child.cancel(number)
            self._end_when_idle()
        if answer.kind is not None:
            raise RequestFailed(answer.kind, answer.text)
        self._deaths = 0

    def limit_rate(self, bytes_per_second: float) -> None:
        if bytes_per_second != self._bytes_per_second:
            self._bytes_per_second = bytes_per_second
            if self._child is not None:
                self._child.send(RateRequest(bytes_per_second))

    async def stop(self) -> None:
        self._is_stopped = True
        if self._idle is not None:
            self._idle.cancel()
        if self._child is not None:
            self._child.on_death("the broker stops")
        if self._reading is not None:
            reading, child = self._reading, self._child
            if child is not None:
                await child.end()
            await asyncio.wait((reading,))

    # --- its life --------------------------------------------------------------------------------

    async def _running(self) -> ChildProcess:
        async with self._starting:
            if self._is_stopped:
                raise RequestFailed(FailureKind.DIED, "the broker stops")
            if self._idle is not None:
                self._idle.cancel()
            if self._child is None or self._child.is_dead:
                rest_s = self._rests_until - time.monotonic()
                if rest_s > 0:
                    raise RequestFailed(
                        FailureKind.DIED, f"the cleaner's process died and rests for {rest_s:.0f} s"
                    )
                self._child = await self._start()
            return self._child

    async def _start(self) -> ChildProcess:
        loop = asyncio.get_running_loop()
        try:
            process = await loop.run_in_executor(None, _spawn, self._module)
        except OSError as error:
            self._count_death()
            raise RequestFailed(FailureKind.DIED, f"no process can be started: {error}") from error
        assert process.stdin is not None
        assert process.stdout is not None
        pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        child = ChildProcess(process, pipe)
        if self._bytes_per_second:
            child.send(RateRequest(self._bytes_per_second))
        self._reading = tasks.spawn(self._read(child, reader), name="cleaner-process")
        return child

    async def _read(self, child: ChildProcess, reader: asyncio.StreamReader) -> None:
        why = ""
        try:
            while line := await reader.readline():
                child.on_answer(answer_of(line))
        except (MessageError, ValueError, OSError) as error:
            why = f"; its answer cannot be read: {error}"
        was_wanted = not child.is_dead
        child.is_dead = True
        status = await child.end()
        if self._child is child:
            self._child = None
        if was_wanted:
            self._count_death()
            log.error("the cleaner's process %d has ended with status %d%s", child.pid, status, why)
            child.on_death(f"it ended with status {status}{why}")

    def _count_death(self) -> None:
        self._deaths += 1
        rest_s = min(FIRST_REST_S * 2 ** (self._deaths - 1), MAX_REST_S)
        self._rests_until = time.monotonic() + rest_s

    def _end_when_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        if not self._is_stopped:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        child = self._child
        if child is not None and child.is_idle and not child.is_dead:
            self._child = None
            child.is_dead = True
            tasks.spawn(child.end(), name="cleaner-process-end")


def _spawn(module: str) -> subprocess.Popen[bytes]:
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **CHILD_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)},
        bufsize=0,
    )
