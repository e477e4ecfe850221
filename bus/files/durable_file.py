"""Small files and names that survive a loss of power.

In: paths, bytes. Out: on the device when a call returns. Raises OSError. Never: half a file under
its name.
"""

from __future__ import annotations

import os
from pathlib import Path


def replace_durably(path: Path, data: bytes) -> None:
    """The file's new content, in one step; for one writer."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def sync_folder(folder: Path) -> None:
    """Make names of the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
