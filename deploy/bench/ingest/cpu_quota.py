"""A share of one core for some processes, by the kernel's control groups.

In: process ids, a share. Out: a context in which they and their children get no more. Never: a
share that is silently not held: `OperatorError` where the machine has no such control.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.errors import OperatorError

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
EMPTY_TIMEOUT_S = 5.0


@contextlib.contextmanager
def held_to(pids: Sequence[int], cores: float) -> Iterator[None]:
    """These processes together get this much of a core; their later children count with them."""
    group = _group()
    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        _limit(group, int(cores * PERIOD_US))
        yield
    except OSError as error:
        raise OperatorError(f"processes cannot be held to a share of a core: {error}") from error
    finally:
        _dissolve(group)


def _group() -> Path:
    """A new group, of version 2 of control groups or of 1."""
    second = (CGROUPS / "cgroup.controllers").exists()
    name = f"databus-bench-{os.getpid()}-{time.time_ns()}"
    group = (CGROUPS if second else CGROUPS / "cpu") / name
    try:
        group.mkdir()
    except OSError as error:
        raise OperatorError(f"no control group can be made: {error}") from error
    return group


def _limit(group: Path, quota_us: int) -> None:
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))


def _dissolve(group: Path) -> None:
    """What still runs goes back to the group above."""
    deadline = time.monotonic() + EMPTY_TIMEOUT_S
    while time.monotonic() < deadline:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (group.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
