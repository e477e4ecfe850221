"""One Java server as a child process: started, waited for until it answers, stopped.

In: class path, main class, a probe. Out: a running process on a free port.
Never: killing anything it did not start.
"""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.errors import Unavailable
from deploy.setup.java import ensure_java

READY_TIMEOUT_S = 60  # three seconds on an idle machine; two cores full of tests are slower
STOP_TIMEOUT_S = 15
POLL_S = 0.1
_RNG = random.SystemRandom()
"""Tests that run side by side may have the same seed."""


def free_port() -> int:
    """A free TCP port; the loser of a race for it fails at its start."""
    return free_range(1)


def free_range(size: int) -> int:
    """The first of so many consecutive ports that are free now; the loser of a race for one fails
    at its start. Below those that the system gives out: a client that looks for a server that was
    killed must not find a socket that Spark's JVM has opened for its own Python meanwhile."""
    while True:
        first = _RNG.randrange(20_000, 32_000 - size)
        if all(_is_free(first + number) for number in range(size)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether connections are accepted there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


class JavaServer:
    """A Java process with its log file; `stop` is safe to call twice.

    Invariant: `process` was started by this object.
    """

    def __init__(
        self, name: str, folder: Path, port: int, process: subprocess.Popen[bytes]
    ) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.process = process

    @property
    def address(self) -> str:
        """`host:port` as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What the server has printed so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def wait_until(self, ready: Callable[[], bool]) -> JavaServer:
        """Return when `ready` holds; death or the limit is `Unavailable` with the log's end."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise Unavailable(f"{self.name} did not start: {self.log[-500:]}")
            time.sleep(POLL_S)
        return self

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> JavaServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def class_path(jars: Sequence[Path]) -> str:
    """Jars as Java's `-cp` wants them."""
    return ":".join(str(jar) for jar in jars)


def launch(
    name: str,
    folder: Path,
    port: int,
    jars: Sequence[Path],
    arguments: Sequence[str],
    *,
    options: Sequence[str] = (),
) -> JavaServer:
    """Start `java OPTIONS -cp JARS ARGUMENTS…` with its output in `folder/server.log`."""
    command = [str(ensure_java()), *options, "-cp", class_path(jars), *arguments]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    return JavaServer(name, folder, port, process)
