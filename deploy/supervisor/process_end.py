"""A process that ends with the one that supervises it.

In: DATABUS_SUPERVISOR, the process id of who started this one. Out: the kernel's promise. Never: a
process that is started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # Linux: tell a process when its parent dies


def end_with_the_supervisor() -> None:
    """Ask the kernel for SIGTERM when the supervisor dies, even by kill -9: no orphans."""
    supervisor = os.environ.get("DATABUS_SUPERVISOR")
    if supervisor is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(supervisor):
        raise SystemExit("the supervisor that started this process is gone")
