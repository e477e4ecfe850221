"""What `up`, `demo` and `cluster up` have in common: processes supervised in this terminal, in a
session of their own, or stopped from elsewhere.

In: processes, a data directory. Out: they are alive until Ctrl-C or SIGTERM. Never: knowledge of
what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.settings.composed import Settings
from deploy.supervisor.child import Child
from deploy.supervisor.state_file import in_use_error, is_held, read_state
from deploy.supervisor.status_line import StatusLine
from deploy.supervisor.supervisor import Supervisor, check_ports

TICK_S = 0.5
DOWN_TIMEOUT_S = 150.0  # the sum of the roles' stop limits
DETACH_TIMEOUT_S = 300.0


def stop_on_signals(asked: asyncio.Event, hurry: asyncio.Event | None = None) -> None:
    """Ctrl-C, SIGTERM and a closed terminal ask for a clean stop; once that is asked for, the next
    one is in a hurry."""

    def on_signal() -> None:
        if hurry is not None and asked.is_set():
            hurry.set()
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)


def describe(supervisor: Supervisor) -> str:
    """Every role with its state, in one line."""
    parts = []
    for name, child in supervisor.children.items():
        again = f"({child.restarts} restarts)" if child.restarts else ""
        parts.append(f"{name} {child.state.value}{again}")
    return " · ".join(parts)


def check_not_running(folder: Path, processes: Sequence[Child]) -> None:
    """Another supervisor on this data directory, or another process on a port of ours."""
    if is_held(folder):
        raise in_use_error(folder)
    check_ports(processes)


async def supervise(
    processes: Sequence[Child],
    folder: Path,
    announcements: Sequence[str] = (),
    about: Mapping[str, object] = MappingProxyType({}),
) -> int:
    """Keep these processes alive until asked to stop; `announcements` are printed once all
    answer."""
    supervisor = Supervisor(processes, folder, about=about)
    line, asked = StatusLine(), asyncio.Event()
    stop_on_signals(asked)
    await supervisor.start()
    try:
        has_announced = False
        while not asked.is_set() and not supervisor.failed:
            if supervisor.all_ready and not has_announced:
                for sentence in announcements:
                    line.say(sentence)
                line.say(f"all roles run; logs: {folder / 'log'}; stop: Ctrl-C or 'databus down'")
                has_announced = True
            line.show(describe(supervisor))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asked.wait(), TICK_S)
    finally:
        line.say("stopping")
        failed = supervisor.failed
        await supervisor.stop()
    for name in failed:
        line.say(f"{name} died too often; the reason is in {folder / 'log' / (name + '.log')}")
    return 1 if failed else 0


def in_the_background(settings: Settings, words: Sequence[str]) -> int:
    """A verb that supervises, in a session of its own; returns when every role answers."""
    folder = settings.site.data_path
    (folder / "log").mkdir(parents=True, exist_ok=True)
    with open(folder / "log" / "up.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy", *settings.arguments, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=PROJECT_ROOT,
        )
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        roles = (read_state(folder) or {}).get("roles", {})
        if roles and all(role["state"] == "running" for role in roles.values()):
            print(f"all roles run; logs: {folder / 'log'}; stop: 'databus down'")
            return 0
        time.sleep(TICK_S)
    raise OperatorError(f"not all roles came up; see {folder / 'log'}")


def down(settings: Settings) -> bool:
    """Stop the supervisor of this data directory and wait; False when there was none."""
    folder = settings.site.data_path
    if not is_held(folder):
        return False
    pid = (read_state(folder) or {}).get("pid")
    if not isinstance(pid, int):
        raise OperatorError(
            f"{folder} is in use, but its state file is missing; try again in a second"
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_TIMEOUT_S
    while is_held(folder):
        if time.monotonic() > deadline:
            raise OperatorError(
                f"process {pid} does not stop; see {folder / 'log' / 'supervisor.log'}"
            )
        time.sleep(TICK_S / 5)
    return True
