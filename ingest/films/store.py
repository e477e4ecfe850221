"""The film store: a folder or any fsspec URL.

In: files that are whole and synced. Out: durable under their names when `publish` returns. Raises
OSError, or what the file system raises. Never: half a segment under its name.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from bus.files.durable_file import sync_folder
from ingest.films.names import OPEN_FOLDER, camera_folder


class FilmStore:
    """One place for films. In a folder a segment grows on the same disk, else in `local`."""

    def __init__(self, url: str, local: Path) -> None:
        import fsspec  # dear, and not needed by who only looks at settings
        from fsspec.implementations.local import LocalFileSystem

        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self.is_folder = isinstance(self._fs, LocalFileSystem)
        self._open = (Path(self._root) if self.is_folder else local) / OPEN_FOLDER
        self._open.mkdir(parents=True, exist_ok=True)

    def open_path(self, camera_ip: str) -> Path:
        """Where the segment of a camera grows."""
        return self._open / f"{camera_folder(camera_ip)}.part"

    def closed_path(self, segment_id: str) -> Path:
        """Where one waits that has ended and has no name yet."""
        return self._open / f"{camera_folder(segment_id)}.closed"

    def adding_path(self, name: str) -> Path:
        """Where a segment of a film grows that is added; a recorder leaves it alone."""
        return self._open / f"{camera_folder(name)}.adding"

    def remove_open(self) -> int:
        """Files of segments that never ended, of a recorder that was killed; how many."""
        found = list(self._open.glob("*.part"))
        for path in found:
            path.unlink()
        return len(found)

    def remove_unknown(self, known: set[Path]) -> None:
        """Files that ended and of which the catalogue says nothing."""
        for path in self._open.glob("*.closed"):
            if path not in known:
                path.unlink()

    def publish(self, closed: Path, name: str) -> None:
        """Give a segment its name. May be called again after a kill."""
        path = f"{self._root}/{name}"
        if self.is_folder:
            self._rename(closed, Path(path))
            return
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.put_file(str(closed), path)
        closed.unlink()

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return bool(self._fs.exists(f"{self._root}/{name}"))

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """A piece of a segment. Raises FileNotFoundError."""
        return bytes(self._fs.cat_file(f"{self._root}/{name}", start=start, end=end))

    def remove(self, name: str) -> None:
        """Delete a segment; one that is gone already is none to complain of."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._root}/{name}")
        if self.is_folder:
            with suppress(OSError):  # others of that day are there
                (Path(self._root) / name).parent.rmdir()

    def free_bytes(self) -> int | None:
        """Of the disk; None where the store cannot say."""
        return shutil.disk_usage(self._root).free if self.is_folder else None

    def _rename(self, closed: Path, target: Path) -> None:
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(target.parent.parent)
            sync_folder(target.parent.parent.parent)
        closed.replace(target)
        sync_folder(target.parent)


class VideoSegmentFile:
    """A segment that grows. On the device when `close` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        """More of it. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def close(self, closed: Path) -> None:
        """Synced, under the name of one that has ended."""
        os.fsync(self._file.fileno())
        self._file.close()
        self.path.replace(closed)
        sync_folder(closed.parent)

    def abandon(self) -> None:
        """Nothing of it is kept."""
        self._file.close()
        self.path.unlink(missing_ok=True)
