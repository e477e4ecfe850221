"""The newest incidents of the watch's own file, for readers beside the watch.

The console shows them while the bus is away, over which it would hear of them otherwise.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from bus.contracts.alarms import Incident

BUSY_S = 1.0
MAX_INCIDENTS = 500


class WatchFileUnavailable(Exception):
    """It cannot be read just now; the text says why."""


def newest_in_file(path: Path, limit: int = MAX_INCIDENTS) -> list[Incident]:
    """Each once, with its end if it has one, newest first; none where no watch has run. Raises
    `WatchFileUnavailable`."""
    if not path.exists():
        return []
    try:
        # Not immutable: the watch writes beside us, and SQLite sees to it that we read whole rows.
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BUSY_S)) as db:
            rows = db.execute(
                "SELECT body FROM incidents ORDER BY id DESC LIMIT ?", (2 * limit,)
            ).fetchall()
        bodies = [msgspec.json.decode(body, type=Incident) for (body,) in rows]
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        raise WatchFileUnavailable(f"{path}: {error}") from error
    found: dict[str, Incident] = {}
    for one in bodies:  # an end was written after its opening, thus comes before it here
        found.setdefault(one.incident_id, one)
    return sorted(found.values(), key=lambda one: one.opened_at_ms, reverse=True)[:limit]
