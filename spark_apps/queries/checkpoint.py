"""A query's checkpoint: an empty, disposable folder, new at every start.

Beginning at an old checkpoint instead of at the application's positions would lose or double
records. Several drivers may run on one data directory: each holds a lock on its own folders, and
removes only those that nobody holds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from pathlib import Path
from typing import IO, Self

from bus.files.lock_file import hold_lock_file
from spark_apps.settings import JobSettings

MEMORY = Path("/dev/shm")
_LOCK = "driver.lock"


class QueryCheckpoint:
    """`folder` is Spark's. Invariant: the lock beside it is held until `close`, or our death."""

    def __init__(self, place: Path, lock: IO[str]) -> None:
        self._place = place
        self._lock = lock
        self.folder = place / "spark"

    @classmethod
    def create(cls, settings: JobSettings, query: str) -> Self:
        """A new one; what killed drivers left of this query is removed."""
        base = folder_of(settings) / query
        base.mkdir(parents=True, exist_ok=True)
        _remove_left(base)
        while True:
            place = base / uuid.uuid4().hex
            place.mkdir()
            lock = _try_lock(place)
            if lock is not None:
                break
        made = cls(place, lock)
        made.folder.mkdir()
        return made

    @property
    def location(self) -> str:
        """Hadoop takes the path as it is written: a quoted one (`Path.as_uri`) is another
        folder."""
        return f"file://{self.folder}"

    def close(self) -> None:
        """Remove it: nobody writes there any more."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._lock.close()


def folder_of(settings: JobSettings) -> Path:
    """Of all checkpoints of a data directory: in memory where there is some."""
    chosen = settings.streams.checkpoint_dir
    if chosen:
        return Path(chosen).absolute()
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        digest = hashlib.sha256(str(settings.site.data_path).encode()).hexdigest()[:12]
        return MEMORY / f"databus-{os.getuid()}-{digest}"
    return settings.site.data_path / "checkpoints"


def _remove_left(base: Path) -> None:
    for place in [found for found in base.iterdir() if found.is_dir()]:
        lock = _try_lock(place)
        if lock is not None:
            shutil.rmtree(place, ignore_errors=True)
            lock.close()  # only now: whoever gets it sees that the folder is gone


def _try_lock(place: Path) -> IO[str] | None:
    """The lock on a folder; None while another driver holds it or has just removed the folder."""
    path = place / _LOCK
    try:
        lock = hold_lock_file(path)
    except (BlockingIOError, FileNotFoundError):
        return None
    if path.exists():
        return lock
    lock.close()
    return None
