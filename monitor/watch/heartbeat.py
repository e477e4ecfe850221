"""The watch's sign of life in a file: for those who ask without a supervisor."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

LIMIT_MS = 30_000  # six signs missed


def write_heartbeat(path: Path, now_ms: int, open_incidents: int, senders: int) -> None:
    """Replace the file in one step; on a full disk, give the old one the time of now. Raises
    `OSError`."""
    sign = {
        "pid": os.getpid(), "at_ms": now_ms, "open_incidents": open_incidents, "senders": senders,
    }  # fmt: skip
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(sign), encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.utime(path, (now_ms / 1000, now_ms / 1000))


def read_heartbeat(path: Path, now_ms: int) -> str:
    """Empty while the watch lives, else what is wrong and what to do."""
    try:
        written_ms = int(json.loads(path.read_text(encoding="utf-8"))["at_ms"])
        at_ms = max(written_ms, int(path.stat().st_mtime * 1000))
    except (OSError, ValueError, KeyError, TypeError):
        return f"no watch has run here ({path} is missing); start it with: databus run watch"
    silent_ms = now_ms - at_ms
    if silent_ms <= LIMIT_MS:
        return ""
    return f"no sign of life for {silent_ms // 1000} s; see: databus logs watch"
