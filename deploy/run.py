"""`run ROLE`: one process of the product in the foreground; what the supervisor, systemd and
compose start.

In: settings and a role's name. Out: the role runs until SIGTERM or Ctrl-C.
Never: more than choosing the room's own entry point; a room's `serve` does the work.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from deploy.errors import OperatorError
from deploy.roles import ROLES
from deploy.settings import Settings
from deploy.settings_sources import unknown

PR_SET_PDEATHSIG = 1  # Linux: tell a process when its parent dies


def run(name: str, settings: Settings) -> None:
    """Run one role here; returns when it was asked to stop."""
    if name not in ROLES:
        raise OperatorError(unknown("role", name, ROLES))
    _end_with_the_supervisor()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the room has its own
    settings.site.data_path.mkdir(parents=True, exist_ok=True)
    STARTERS[name](settings)


def _end_with_the_supervisor() -> None:
    """Ask the kernel for SIGTERM when the supervisor dies, even by kill -9: no orphans."""
    supervisor = os.environ.get("DATABUS_SUPERVISOR")
    if supervisor is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(supervisor):
        raise SystemExit("the supervisor that started this process is gone")
