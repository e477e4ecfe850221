"""Keeps a set of processes alive: starts them in sequence, restarts the dead, stops them in
reverse.

In: `Child` values and a folder for logs and state. Out: running process groups, `supervisor.json`
(the state others read) and `log/supervisor.log` (every start, death and restart).
Never: knowing what the processes are; never a signal to a process it did not start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bus.runtime import tasks
from bus.runtime.wall_clock import now_ms
from deploy.errors import OperatorError
from deploy.supervisor.child import Child, RoleState
from deploy.supervisor.restart import RestartPolicy
from deploy.supervisor.state_file import StateFile, rotate_log

POLL_S = 0.1
LOG_ROTATION_S = 5.0
KILL_WAIT_S = 5.0


@dataclass(slots=True)
class ChildState:
    """What happened to one child so far.

    Invariant: `process` is the one running or the last one that ran.
    """

    spec: Child
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
    """Refuse to start on a port in use; say whose it is and where to change ours."""
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
        self.children = {child.name: ChildState(child) for child in children}
        self._policy = policy or RestartPolicy()
        self._log_folder = folder / "log"
        self._state = StateFile(folder, about)
        self._stopping: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Lock the data directory and start everything; returns at once."""
        self._state.acquire()
        self._log_folder.mkdir(parents=True, exist_ok=True)
        for name, child in self.children.items():
            self._tasks[name] = tasks.spawn(self._supervise(child), name=f"keep {name}")
        self._tasks[""] = tasks.spawn(self._rotate_logs(), name="housekeeping")

    async def stop(self) -> None:
        """Stop the children in the reverse of their order, then release the data directory."""
        for name in reversed(self.children):
            await self.stop_role(name)
        house = self._tasks.pop("", None)
        if house is not None:
            house.cancel()
        self._state.release()

    async def stop_role(self, name: str) -> None:
        """Stop one child for good: SIGTERM to it, then SIGKILL to its whole group."""
        self._stopping.add(name)
        child, task = self.children[name], self._tasks.pop(name, None)
        process = child.process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), child.spec.stop_timeout_s)
            except TimeoutError:
                self._log_event(name, f"does not stop within {child.spec.stop_timeout_s} s; killed")
            _kill_group(process.pid)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), KILL_WAIT_S)
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        if child.state is not RoleState.FAILED:
            self._set_state(child, RoleState.STOPPED)

    def kill_all(self) -> None:
        """kill -9 of every child with all that it started, at once and for good."""
        self._stopping.update(self.children)
        for child in self.children.values():
            if child.pid is not None:
                _kill_group(child.pid)

    @property
    def all_ready(self) -> bool:
        """Whether every child runs and answers."""
        return all(child.state is RoleState.RUNNING for child in self.children.values())

    @property
    def failed(self) -> list[str]:
        """The children that were given up."""
        return [name for name, child in self.children.items() if child.state is RoleState.FAILED]

    @property
    def restarts(self) -> int:
        """How often any child had to be started again."""
        return sum(child.restarts for child in self.children.values())

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Poll a condition of ours; False at the limit or when a child was given up."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline or self.failed:
                return False
            await asyncio.sleep(POLL_S)
        return True

    # -- one child's life ---------------------------------------------------------------------

    async def _supervise(self, child: ChildState) -> None:
        """Start, watch, restart with back-off, until stopped or given up."""
        await self._wait_for_needs(child.spec)
        while child.spec.name not in self._stopping:
            await self._run_once(child)
            if child.spec.name in self._stopping:
                return
            child.deaths_s.append(time.monotonic())
            delay_s = self._policy.delay_s(child.deaths_s, child.deaths_s[-1])
            if delay_s is None:
                self._set_state(child, RoleState.FAILED)
                self._log_event(child.spec.name, "died too often; given up")
                return
            child.restarts += 1
            self._set_state(child, RoleState.RESTARTING)
            self._log_event(child.spec.name, f"exit {child.last_exit}; restart in {delay_s:g} s")
            await asyncio.sleep(delay_s)

    async def _run_once(self, child: ChildState) -> None:
        """One process from start to end; its whole group ends with it."""
        spec = child.spec
        log_path = self._log_folder / f"{spec.name}.log"
        with open(log_path, "ab") as log:
            log_start = log.tell()
            child.process = await asyncio.create_subprocess_exec(
                *spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(spec.environment),
                start_new_session=True,
            )
        self._set_state(child, RoleState.STARTING)
        self._log_event(spec.name, f"started as process {child.process.pid}")
        ready = tasks.spawn(
            self._wait_until_ready(child, log_path, log_start), name=f"ready {spec.name}"
        )
        try:
            child.last_exit = await child.process.wait()
        finally:
            ready.cancel()
        if spec.name not in self._stopping:
            _kill_group(child.process.pid)

    async def _wait_until_ready(self, child: ChildState, log_path: Path, log_start: int) -> None:
        spec = child.spec
        while spec.endpoint is not None and not await asyncio.to_thread(
            spec.endpoint.accepts_connections
        ):
            await asyncio.sleep(POLL_S)
        while spec.ready_line and not _has_line(log_path, log_start, spec.ready_line):
            await asyncio.sleep(POLL_S)
        self._set_state(child, RoleState.RUNNING)

    async def _wait_for_needs(self, child: Child) -> None:
        while any(self.children[need].state is not RoleState.RUNNING for need in child.needs):
            await asyncio.sleep(POLL_S)

    # -- what others see ---------------------------------------------------------------------

    def _set_state(self, child: ChildState, state: RoleState) -> None:
        child.state, child.since_ms = state, now_ms()
        self._state.write(
            {
                name: {
                    "state": each.state.value,
                    "pid": each.pid,
                    "restarts": each.restarts,
                    "last_exit": each.last_exit,
                    "since_ms": each.since_ms,
                }
                for name, each in self.children.items()
            }
        )

    def _log_event(self, name: str, what: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        with open(self._log_folder / "supervisor.log", "a", encoding="utf-8") as log:
            log.write(f"{stamp} {name}: {what}\n")

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_ROTATION_S)
            for path in self._log_folder.glob("*.log"):
                rotate_log(path)


def _has_line(log_path: Path, start: int, line: str) -> bool:
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
