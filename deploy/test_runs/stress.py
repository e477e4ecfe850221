"""`databus test --stress N PATTERN`: the load beside which tests are repeated.

In: nothing. Out: processes that keep every core busy while a block runs. Never: one that is left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

ENDLESS_WORK = "while True: sum(range(100_000))"
END_TIMEOUT_S = 10


@contextlib.contextmanager
def load() -> Iterator[None]:
    """One process a core that never waits; ended with the block, also by an error or Ctrl-C."""
    workers = [
        subprocess.Popen([sys.executable, "-c", ENDLESS_WORK], stdin=subprocess.DEVNULL)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait(END_TIMEOUT_S)
