"""A small JSON file that several processes change: one at a time, never half-written, owner only.

In/out: one msgspec struct per file. Never: anything large; the whole file is read and written at
once.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class DamagedFile(Exception):
    """The file is there but is not what we wrote; nobody is let in by guessing."""


class LockedFile(Generic[T]):
    """`read` is cheap while the file does not change; `change` holds the lock from reading to
    renaming.
    """

    def __init__(self, path: Path, model: type[T]) -> None:
        self._path = path
        self._model = model
        self._seen: tuple[int, int, int] | None = None
        self._value: T = model()

    def read(self) -> T:
        """What the file holds now; the model's defaults when there is no file. Raises
        `DamagedFile`.
        """
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen = None
            return self._model()
        mark = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if mark != self._seen:
            self._value = self._load()
            self._seen = mark
        return self._value

    def change(self, edit: Callable[[T], T]) -> T:
        """Read, edit, write; the new content is on disk when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock():
            value = edit(self._load() if self._path.exists() else self._model())
            self._write(msgspec.json.format(msgspec.json.encode(value), indent=1))
        return value

    def _load(self) -> T:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=self._model)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise DamagedFile(f"{self._path}: {error}") from error

    def _write(self, content: bytes) -> None:
        fresh = self._path.with_name(self._path.name + ".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        lock = self._path.with_name(self._path.name + ".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
