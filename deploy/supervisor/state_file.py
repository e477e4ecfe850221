"""The supervisor's mark on a data directory: a lock that two cannot hold, a state others can read.

In: a data directory. Out: `supervisor.lock` (flock, held for life), `supervisor.json`.
Never: deciding anything about processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from bus.files.lock_file import hold_lock_file
from bus.runtime.wall_clock import now_ms
from deploy.errors import OperatorError
from monitor.ports import ProcessStatus

SUPERVISOR = "supervisor"  # the name under which it appears beside its roles
CLUSTER_ADDRESSES = "addresses"
"""Of a cluster that is kept alive here: settings by which its clients reach it."""
LOG_LIMIT_BYTES = 64 << 20  # per role; one older generation is kept beside it


class StateFile:
    """Who supervises this data directory and how its roles are.

    Invariant: the state file is written only while the lock is held.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self._folder = folder
        self._about = dict(about)
        self._lock: IO[str] | None = None
        self._started_at_ms = 0

    def acquire(self) -> None:
        """Hold the data directory, or say who does."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = hold_lock_file(self._folder / "supervisor.lock")
        except BlockingIOError:
            raise in_use_error(self._folder) from None
        self._started_at_ms = now_ms()

    def write(self, roles: dict[str, Any]) -> None:
        """Replace the state in one step, so that readers never see half of it."""
        if self._lock is None:
            return
        state = {"pid": os.getpid(), "started_at_ms": self._started_at_ms, "roles": roles}
        state |= self._about
        fresh = self._folder / "supervisor.json.new"
        fresh.write_text(json.dumps(state), encoding="utf-8")
        fresh.replace(self._folder / "supervisor.json")

    def release(self) -> None:
        """Give the data directory back."""
        if self._lock is not None:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / "supervisor.json").unlink()
            self._lock.close()
            self._lock = None


def in_use_error(folder: Path) -> OperatorError:
    """The error that names who holds a data directory and what to do about it."""
    pid = (read_state(folder) or {}).get("pid", "unknown")
    return OperatorError(
        f"{folder} is in use by process {pid}; stop it with 'databus down', "
        "or use another with --data-dir"
    )


def is_held(folder: Path) -> bool:
    """Whether a supervisor lives on this data directory right now."""
    path = folder / "supervisor.lock"
    if not path.exists():
        return False
    try:
        hold_lock_file(path).close()
    except BlockingIOError:
        return True
    return False


def read_state(folder: Path) -> dict[str, Any] | None:
    """The last state written here, or None; it may be a dead supervisor's (see `is_held`)."""
    try:
        state: dict[str, Any] = json.loads((folder / "supervisor.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state


def supervised(folder: Path) -> list[ProcessStatus]:
    """The supervisor of a data directory and all that it keeps alive; empty without one.

    The one reader of that state: `status` prints it, the console shows it.
    """
    state = read_state(folder) if is_held(folder) else None
    if state is None:
        return []
    own = ProcessStatus(
        role=SUPERVISOR, state="running", pid=state.get("pid"),
        since_ms=state.get("started_at_ms"),
    )  # fmt: skip
    return [
        own,
        *(
            ProcessStatus(
                role=name,
                state=role["state"],
                pid=role["pid"],
                restarts=role["restarts"],
                since_ms=role["since_ms"],
                last_exit=role.get("last_exit"),
            )
            for name, role in state["roles"].items()
        ),
    ]


def rotate_log(path: Path, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
    """Move a log that has grown past its limit to one older generation.

    The writer keeps its file open for appending, so the file is copied and cut, not renamed.
    """
    if path.stat().st_size > limit_bytes:
        shutil.copyfile(path, path.with_suffix(".log.1"))
        os.truncate(path, 0)
