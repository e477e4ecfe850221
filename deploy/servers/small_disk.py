"""A separate file system that can fill up and have room again: a tmpfs that is resized.

In: a folder. Out: the folder as a mount, unmounted at the end. Never: another folder's mount.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PAGE_BYTES = 4096
ATTEMPTS = 20


class CannotMount(Exception):
    """Not root, or in a container that may not mount."""


class ResizableDisk:
    """A mounted folder with a size that can change while it is used."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._mount("tmpfs", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs")

    def resize(self, size_bytes: int) -> None:
        self._mount("resize", "-o", f"remount,size={size_bytes}")

    @property
    def free_bytes(self) -> int:
        now = os.statvfs(self.folder)
        return now.f_bfree * now.f_frsize

    def leave(self, free_bytes: int) -> None:
        """Shrinks to the used bytes plus these, at least a page."""
        for attempt in range(1, ATTEMPTS + 1):
            now = os.statvfs(self.folder)
            used = (now.f_blocks - now.f_bfree) * now.f_frsize
            try:
                self.resize(used + max(free_bytes, PAGE_BYTES))
                return
            except CannotMount:  # more has been written meanwhile than would have fitted
                if attempt == ATTEMPTS:
                    raise

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=False)

    def _mount(self, what: str, *words: str) -> None:
        try:
            done = subprocess.run(
                ["mount", *words, self.folder], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise CannotMount(f"no command mount: {error}") from error
        if done.returncode:
            raise CannotMount(f"{what}: {done.stderr.strip()}")
