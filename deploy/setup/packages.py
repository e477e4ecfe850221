"""Installing by the system's package manager, where that is ours to do (root, no questions asked).

In: package names. Out: whether the installer succeeded. Never: sudo, never a prompt.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from deploy.setup.child import run_child
from deploy.setup.still_at_it import say, still_at_it

INSTALL_TIMEOUT_S = 900  # a slow mirror and a JDK; past that something is stuck


def installer() -> list[str] | None:
    """The command that installs packages here without asking, or None where we may not."""
    if os.name != "posix" or os.geteuid() != 0 or os.environ.get("DATABUS_NO_INSTALL"):
        return None
    if shutil.which("apt-get"):
        return ["apt-get", "install", "-y", "--no-install-recommends"]
    if shutil.which("dnf"):
        return ["dnf", "install", "-y"]
    return None


def install(debian: list[str], fedora: list[str]) -> bool:
    """Install the packages under the name this system uses; False where it cannot be done."""
    command = installer()
    if command is None:
        return False
    names = debian if command[0] == "apt-get" else fedora
    with still_at_it(f"installing {' '.join(names)} with {command[0]}"):
        if command[0] == "apt-get":
            _update_lists()
        return _run([*command, *names])


def command_of(name: str, package: str) -> Path | None:
    """Where a command is, its package installed if need be; None where that cannot be done."""
    found = shutil.which(name)
    if found is None and install([package], [package]):
        found = shutil.which(name)
    return None if found is None else Path(found)


def reason_of(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a failed program complained of."""
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]


@lru_cache(maxsize=1)
def _update_lists() -> None:
    """Once per process: every further package is looked up in the same lists."""
    _run(["apt-get", "update", "-q"])


def _run(command: list[str]) -> bool:
    try:
        done = run_child(command, INSTALL_TIMEOUT_S, {"DEBIAN_FRONTEND": "noninteractive"})
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode != 0:
        say(f"{' '.join(command)} failed: {reason_of(done)}")
    return done.returncode == 0
