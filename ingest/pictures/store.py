"""The picture store: a folder or any fsspec URL. A picture is durable when `put` returns; retries
are the writer's. Names from outside are checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from bus.contracts.pictures import PICTURES_PREFIX, is_safe_name, name_in_address
from bus.files.durable_file import sync_folder
from ingest.pictures.names import DAY, content_type

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
        import fsspec  # half of what a command costs that opens no picture
        from fsspec.implementations.local import LocalFileSystem

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

    def copy(self, name: str, target: str) -> bool:
        """The same picture under another name, durable; False where there is none. In a folder it
        takes no room until the first name is deleted."""
        if self._is_folder and is_safe_name(name):
            with suppress(OSError):  # a file system without links, or no such picture
                return _link(Path(self._root) / name, Path(self._root) / target)
        data = self.get(name)
        if data is None:
            return False
        self.put(target, data)
        return True

    def forget(self, before_day: str, limit: int, folder: str = "") -> int:
        """Delete at most `limit` pictures of the days before that one; how many. Other names than
        days, as those of copies, stay."""
        root = f"{self._root}/{folder}" if folder else self._root
        gone = 0
        for path, is_folder in sorted(self._entries(root)):
            day = path.rpartition("/")[2]
            if is_folder and DAY.fullmatch(day) and day < before_day:
                gone += self._remove(path, limit - gone)
            if gone >= limit:
                break
        return gone

    def _remove(self, folder: str, limit: int) -> int:
        """At most so many files of a folder, and the folder when it is empty."""
        gone = 0
        for path, is_folder in self._entries(folder):
            if is_folder:
                gone += self._remove(path, limit - gone)
            else:
                with suppress(FileNotFoundError):  # another edge was faster
                    self._fs.rm_file(path)
                gone += 1
            if gone >= limit:
                return gone
        with suppress(OSError):  # somebody put something there meanwhile
            self._fs.rmdir(folder)
        return gone

    def _entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """What lies in a folder, and whether that is one; nothing where there is none. A folder of
        this machine may hold a million and is not read ahead."""
        with suppress(FileNotFoundError):
            if self._is_folder:
                with os.scandir(folder) as found:
                    for one in found:
                        yield one.path, one.is_dir(follow_symlinks=False)
                return
            self._fs.invalidate_cache()
            for entry in self._fs.ls(folder, detail=True):
                yield str(entry["name"]).rstrip("/"), entry["type"] == "directory"

    def serve(self, name: str) -> ServedPicture | None:
        """`get` with the headers; raises what the file system raises while it is away."""
        data = self.get(name)
        return None if data is None else served(name, data)

    def url(self, name: str) -> str:
        """The address that goes into the record."""
        return f"{self._base_url}{PICTURES_PREFIX}{name}"

    def name_of(self, url: str) -> str:
        """The name behind an address of ours; empty for anybody else's."""
        return name_in_address(url)

    def path_of(self, url: str) -> str:
        """Where the picture lies (a path for a folder, an fsspec URL otherwise); empty if not
        ours."""
        name = self.name_of(url)
        if not name:
            return ""
        path = f"{self._root}/{name}"
        return path if self._is_folder else str(self._fs.unstrip_protocol(path))


def _link(source: Path, target: Path) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.link(source, target)
    sync_folder(target.parent)
    return True


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
    sync_folder(path.parent)
