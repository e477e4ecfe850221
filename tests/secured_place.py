"""A broker of a closed site, with a folder as `secure init` makes it, for tests.

In: a data directory, free ports. Out: settings, logins, a running process. Never: a process that
outlives its test.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.roles.table import environment
from deploy.secure.account_settings import as_account
from deploy.secure.init import init
from deploy.settings.composed import Settings, load

WAIT_S = 120.0


@dataclass(frozen=True)
class BrokerPlace:
    """Data and ports of one broker; `more`: further settings of all its processes."""

    folder: Path
    clients: int
    brokers: int
    more: Mapping[str, object] = field(default_factory=dict)

    def settings(self, *, is_secured: bool = True) -> Settings:
        flags: dict[str, object] = {
            "site.data_dir": self.folder,
            "bus.bootstrap_servers": f"127.0.0.1:{self.clients}",
            "broker.metrics.port": -1,
            "broker.listeners": f"PLAINTEXT://127.0.0.1:{self.clients}",
        }
        if is_secured:
            flags["broker.listeners"] = f"{flags['broker.listeners']},BROKERS://127.0.0.1:{self.brokers}"
            flags["security.folder"] = "secure"
        flags |= self.more
        return load(None, [f"{name}={value}" for name, value in flags.items()], environment={})

    def bus(self, account: str) -> BusSettings:
        return as_account(self.settings(), account).bus


@contextlib.contextmanager
def running(settings: Settings, until: str) -> Iterator[subprocess.Popen[str]]:
    """A broker's process, from the line that begins so; it is killed with -9 at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deploy", *settings.arguments, "run", "broker"], cwd=PROJECT_ROOT,
        env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    lines: queue.Queue[str] = queue.Queue()
    stdout = process.stdout
    assert stdout is not None
    reader = threading.Thread(target=_pass_on, args=(stdout, lines), daemon=True)
    reader.start()
    try:
        seen: list[str] = []
        while not seen or not seen[-1].startswith(until):
            try:
                seen.append(lines.get(timeout=WAIT_S))
            except queue.Empty:
                pytest.fail(f"no line that begins with {until!r}: {seen}")
        yield process
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
        reader.join(WAIT_S)


def _pass_on(stdout: IO[str], lines: queue.Queue[str]) -> None:
    for line in stdout:
        lines.put(line)


def new_folder(place: BrokerPlace) -> None:
    init(place.folder / "secure", site="a", brokers=1, places=["127.0.0.1"], passphrase="one long enough")
