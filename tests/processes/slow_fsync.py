"""A running process whose fsync takes seconds: strace delays the call before the kernel gets it.

In: a process id. Out: the process with each fdatasync and fsync delayed; other system calls keep
their speed. Never: a process that stays stopped afterwards; strace detaches from it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

END_TIMEOUT_S = 30


class CannotTrace(Exception):
    """strace is missing or may not attach here."""


def check_strace() -> None:
    """Raises `CannotTrace` unless strace exists and may attach to a child process."""
    if shutil.which("strace") is None:
        raise CannotTrace("needs strace (Debian: apt-get install strace)")
    child = subprocess.Popen(["sleep", "60"])
    try:
        with slow_fsync(child.pid, 1):
            pass
    finally:
        child.kill()
        child.wait()


@contextmanager
def slow_fsync(pid: int, delay_ms: int, paths: Sequence[Path] = ()) -> Iterator[None]:
    """Delays each flush of the process and its threads by `delay_ms` while the block runs; only
    flushes of these files and directories, if any are given."""
    only = [word for path in paths for word in ("-P", str(path))]
    delay = f"inject=fsync,fdatasync:delay_enter={delay_ms * 1000}"  # microseconds
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(pid), *only, "-e", "trace=fsync,fdatasync", "-e", delay,
         "-o", "/dev/null"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = tracer.stderr.readline() if tracer.stderr is not None else ""
        if "attached" not in said:
            raise CannotTrace(f"strace: {said.strip()}")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        try:
            tracer.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            tracer.kill()
            tracer.wait()
