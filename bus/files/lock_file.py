"""A lock file that one process holds; the kernel frees it when the process dies."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


def hold_lock_file(path: Path) -> IO[str]:
    """The open file, which holds the lock until it is closed. Raises `BlockingIOError`
    while another process holds it, another `OSError` where it cannot be opened."""
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file
