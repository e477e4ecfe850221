"""Keeps a set of processes alive: starts them in order, restarts the dead, stops them in order.

In: `Child` values and a folder for logs and state. Out: running process groups, `supervisor.json`
(the state others read) and `log/supervisor.log` (every start, death and restart).
Never: knowing what the processes are; never a signal to a process it did not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bus import tasks
from deploy.errors import OperatorError
from deploy.restart import RestartPolicy
from deploy.state_file import StateFile, rotate_log

POLL_S = 0.1
HOUSEKEEPING_S = 5.0
KILL_WAIT_S = 5.0


class RoleState(str, Enum):
    """Where a child is in its life."""

    WAITING = "waiting"  # for the roles it needs
    STARTING = "starting"  # runs, its endpoint does not answer yet
    RUNNING = "running"
    RESTARTING = "restarting"  # died; waits out its back-off
    FAILED = "failed"  # died too often; given up
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A TCP address that answers when a role is ready; `setting` (or an option) changes it."""

    host: str
    port: int
    setting: str

    @property
    def probe_host(self) -> str:
        """Where to ask: a wildcard address answers on the loopback."""
        return "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host

    def answers(self) -> bool:
        """Whether somebody accepts connections there."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.probe_host, self.port), 1),
        ):
            return True
        return False

    def is_free(self) -> bool:
        """Whether we could listen there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError:
                return False
            return True


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep alive.

    It is ready when its `endpoint` answers and its log shows `ready_line`, as far as it has them.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    needs: tuple[str, ...] = ()
    endpoint: Endpoint | None = None
    ready_line: str = ""
    stop_timeout_s: float = 20


@dataclass(slots=True)
class Life:
    """What happened to one child so far.

    Invariant: `process` is the one running or the last one that ran.
    """

    child: Child
    state: RoleState = RoleState.WAITING
    process: asyncio.subprocess.Process | None = None
    deaths_s: list[float] = field(default_factory=list)
    restarts: int = 0
    last_exit: int | None = None
    since_ms: int = 0

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        running = self.process is not None and self.process.returncode is None
        return self.process.pid if self.process is not None and running else None


def check_ports(children: Sequence[Child]) -> None:
    """Refuse to start over somebody else's port; say whose it is and where to change ours."""
    for child in children:
        if child.endpoint is not None and not child.endpoint.is_free():
            at = f"{child.endpoint.host}:{child.endpoint.port}"
            setting = child.endpoint.setting
            remedy = f"{setting} …" if setting.startswith("--") else f"--set {setting}=…"
            raise OperatorError(
                f"port {at} for {child.name} is taken{_owner(child.endpoint.port)}; stop that "
                f"process, or choose another with {remedy}"
            )


class Supervisor:
    """Shell around `RestartPolicy`: `run()` until `stop()`.

    Invariant: every process group it signals was started by it.
    """

    def __init__(
        self,
        children: Sequence[Child],
        folder: Path,
        *,
        policy: RestartPolicy | None = None,
        about: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`about` stands in the state file too, for those who ask what runs here."""
        self.lives = {child.name: Life(child) for child in children}
        self._policy = policy or RestartPolicy()
        self._log_folder = folder / "log"
        self._state = StateFile(folder, about)
        self._stopping: set[str] = set()
        self._keepers: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Take the data directory and start everything; returns at once."""
        self._state.take()
        self._log_folder.mkdir(parents=True, exist_ok=True)
        for name, life in self.lives.items():
            self._keepers[name] = tasks.spawn(self._keep(life), name=f"keep {name}")
        self._keepers[""] = tasks.spawn(self._keep_house(), name="housekeeping")

    async def stop(self) -> None:
        """Stop the children in the reverse of their order, then give the data directory back."""
        for name in reversed(self.lives):
            await self.stop_role(name)
        house = self._keepers.pop("", None)
        if house is not None:
            house.cancel()
        self._state.release()

    async def stop_role(self, name: str) -> None:
        """Stop one child for good: SIGTERM to it, then SIGKILL to its whole group."""
        self._stopping.add(name)
        life, keeper = self.lives[name], self._keepers.pop(name, None)
        process = life.process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), life.child.stop_timeout_s)
            except TimeoutError:
                self._record(name, f"does not stop within {life.child.stop_timeout_s} s; killed")
            _kill_group(process.pid)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), KILL_WAIT_S)
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait((keeper,))
        if life.state is not RoleState.FAILED:
            self._become(life, RoleState.STOPPED)

    @property
    def all_ready(self) -> bool:
        """Whether every child runs and answers."""
        return all(life.state is RoleState.RUNNING for life in self.lives.values())

    @property
    def failed(self) -> list[str]:
        """The children that were given up."""
        return [name for name, life in self.lives.items() if life.state is RoleState.FAILED]

    @property
    def restarts(self) -> int:
        """How often any child had to be started again."""
        return sum(life.restarts for life in self.lives.values())

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Poll a condition of ours; False at the limit or when a child was given up."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline or self.failed:
                return False
            await asyncio.sleep(POLL_S)
        return True

    # -- one child's life --------------------------------------------------------------------

    async def _keep(self, life: Life) -> None:
        """Start, watch, restart with back-off, until stopped or given up."""
        await self._wait_for_needs(life.child)
        while life.child.name not in self._stopping:
            await self._live_once(life)
            if life.child.name in self._stopping:
                return
            life.deaths_s.append(time.monotonic())
            delay_s = self._policy.delay_s(life.deaths_s, life.deaths_s[-1])
            if delay_s is None:
                self._become(life, RoleState.FAILED)
                self._record(life.child.name, "died too often; given up")
                return
            life.restarts += 1
            self._become(life, RoleState.RESTARTING)
            self._record(life.child.name, f"exit {life.last_exit}; restart in {delay_s:g} s")
            await asyncio.sleep(delay_s)

    async def _live_once(self, life: Life) -> None:
        """One process from start to end; its whole group ends with it."""
        child = life.child
        log_path = self._log_folder / f"{child.name}.log"
        with open(log_path, "ab") as log:
            log_start = log.tell()
            life.process = await asyncio.create_subprocess_exec(
                *child.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(child.environment),
                start_new_session=True,
            )
        self._become(life, RoleState.STARTING)
        self._record(child.name, f"started as process {life.process.pid}")
        ready = tasks.spawn(
            self._watch_ready(life, log_path, log_start), name=f"ready {child.name}"
        )
        try:
            life.last_exit = await life.process.wait()
        finally:
            ready.cancel()
        if child.name not in self._stopping:
            _kill_group(life.process.pid)

    async def _watch_ready(self, life: Life, log_path: Path, log_start: int) -> None:
        child = life.child
        while child.endpoint is not None and not await asyncio.to_thread(child.endpoint.answers):
            await asyncio.sleep(POLL_S)
        while child.ready_line and not _says(log_path, log_start, child.ready_line):
            await asyncio.sleep(POLL_S)
        self._become(life, RoleState.RUNNING)

    async def _wait_for_needs(self, child: Child) -> None:
        while any(self.lives[need].state is not RoleState.RUNNING for need in child.needs):
            await asyncio.sleep(POLL_S)

    # -- what others see ---------------------------------------------------------------------

    def _become(self, life: Life, state: RoleState) -> None:
        life.state, life.since_ms = state, time.time_ns() // 1_000_000
        self._state.write(
            {
                name: {
                    "state": each.state.value,
                    "pid": each.pid,
                    "restarts": each.restarts,
                    "last_exit": each.last_exit,
                    "since_ms": each.since_ms,
                }
                for name, each in self.lives.items()
            }
        )

    def _record(self, name: str, what: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with open(self._log_folder / "supervisor.log", "a", encoding="utf-8") as log:
            log.write(f"{stamp} {name}: {what}\n")

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            for path in self._log_folder.glob("*.log"):
                rotate_log(path)


def _says(log_path: Path, start: int, line: str) -> bool:
    """Whether a process has written these words since it was started."""
    with open(log_path, "rb") as log:
        log.seek(start if log_path.stat().st_size >= start else 0)  # cut by rotation meanwhile
        return line.encode() in log.read()


def _kill_group(pid: int) -> None:
    """End what a child left behind in its own session (a JVM, a worker)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _owner(port: int) -> str:
    """` by name (process 123)` where the system tells."""
    import psutil  # only needed to word this one error

    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status != "LISTEN":
                continue
            if connection.pid and getattr(connection.laddr, "port", 0) == port:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        return ""
    return ""
