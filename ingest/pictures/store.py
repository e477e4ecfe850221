"""The picture store: a folder or any fsspec URL. A picture is durable when `put` returns; retries
are the writer's. Names from outside are checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from fsspec.implementations.local import LocalFileSystem

from bus.contracts.pictures import PICTURES_PREFIX
from ingest.pictures.names import content_type, is_safe_name

MAX_SERVED_BYTES = 32 << 20  # what others put there may be no picture, and larger than memory


class ServedPicture(NamedTuple):
    """A picture as it is sent to a browser."""

    data: bytes
    headers: dict[str, str]


def served(name: str, data: bytes) -> ServedPicture:
    """With the headers it goes with, from the edge as from the console: a name never gets other
    bytes, and what is no picture is not to be taken for a page."""
    headers = {
        "Content-Type": content_type(name),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    return ServedPicture(data, headers)


class PictureStore:
    """One place for pictures. `base_url` is what their addresses begin with."""

    def __init__(self, url: str, base_url: str) -> None:
        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(url)
        self._base_url = base_url.rstrip("/")
        self._is_folder = isinstance(self._fs, LocalFileSystem)

    def put(self, name: str, data: bytes) -> None:
        """Durable and whole when it returns; raises `OSError` or what the file system raises."""
        path = f"{self._root}/{name}"
        if self._is_folder:
            write_durably(Path(path), data)
            return
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, data)

    def get(self, name: str) -> bytes | None:
        """The bytes of a picture, None where there is none (or the name is not one of ours)."""
        if not is_safe_name(name):
            return None
        path = f"{self._root}/{name}"
        try:
            if self._fs.size(path) > MAX_SERVED_BYTES:
                return None
            data: bytes = self._fs.cat_file(path)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return data

    def serve(self, name: str) -> ServedPicture | None:
        """`get` with the headers; raises what the file system raises while it is away."""
        data = self.get(name)
        return None if data is None else served(name, data)

    def url(self, name: str) -> str:
        """The address that goes into the record."""
        return f"{self._base_url}{PICTURES_PREFIX}{name}"

    def name_of(self, url: str) -> str:
        """The name behind an address of ours; empty for anybody else's."""
        _, found, name = url.partition(PICTURES_PREFIX)
        return name if found and is_safe_name(name) else ""

    def path_of(self, url: str) -> str:
        """Where the picture lies (a path for a folder, an fsspec URL otherwise); empty if not
        ours."""
        name = self.name_of(url)
        if not name:
            return ""
        path = f"{self._root}/{name}"
        return path if self._is_folder else str(self._fs.unstrip_protocol(path))


def write_durably(path: Path, data: bytes) -> None:
    """Under its name only when whole: a reader never sees half a picture, a crash leaves none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{id(data):x}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
