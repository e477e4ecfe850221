"""A separate file system for a test that fills it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.servers.small_disk import CannotMount, ResizableDisk


@contextmanager
def own_disk(folder: Path, size_bytes: int) -> Iterator[ResizableDisk]:
    """Mounted for as long as the test needs it, which is skipped where nothing may be mounted."""
    try:
        disk = ResizableDisk(folder, size_bytes)
    except CannotMount as why:
        pytest.skip(f"a full disk needs a file system of its own: {why}")
    try:
        yield disk
    finally:
        disk.unmount()
