"""The end of a role's log, and what comes after it.

In: the log folder and a role. Out: lines on stdout. Never: more memory than the lines asked for.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from pathlib import Path

from deploy.errors import OperatorError
from deploy.settings.sources import unknown

POLL_S = 0.3


def show(folder: Path, role: str, lines: int, follow: bool) -> None:
    """Print the last lines; with `follow` go on until Ctrl-C."""
    path = folder / f"{role}.log"
    if not path.is_file():
        known = [log.stem for log in folder.glob("*.log")]
        raise OperatorError(
            unknown("log", role, known) if known else f"there are no logs in {folder} yet"
        )
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in deque(log, maxlen=lines):
            sys.stdout.write(line)
        with contextlib.suppress(KeyboardInterrupt):
            while follow:
                line = log.readline()
                if not line:
                    time.sleep(POLL_S)
                    if path.stat().st_size < log.tell():  # cut by rotation
                        log.seek(0)
                sys.stdout.write(line)
                sys.stdout.flush()
