"""A table in a file that processes share: mapped, read-only, opened where it is used first.

In: a path, the hash of the content; how a kind of table reads its header and its sections. Out: a
table that pickles as both. Never: content that is not what its header says; one that is open here
read through again: rules come again with each change.
"""

from __future__ import annotations

import hashlib
import mmap
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast
from weakref import WeakValueDictionary

from alarm.lists.table_layout import HEADER_BYTES, TableError


class FileHeader(Protocol):
    """What every kind has at the head of its file."""

    @property
    def sha256(self) -> bytes:
        """Of all that follows the header."""

    @property
    def lines(self) -> int:
        """How many."""

    @property
    def size(self) -> int:
        """Of the whole file."""


class MappedSections(Protocol):
    """The sections of a file as they are mapped."""

    @property
    def header(self) -> FileHeader:
        """Of the file."""

    def line(self, place: int) -> Any:
        """The one at a place, from 0."""


MappedT = TypeVar("MappedT", bound=MappedSections)
LineT = TypeVar("LineT")


class FileTable(ABC, Generic[MappedT, LineT]):
    """A table. Without its file open until something is asked."""

    _in_use: ClassVar[WeakValueDictionary[tuple[type, bytes], Any]] = WeakValueDictionary()
    """Mapped sections by kind and hash."""

    def __init__(self, path: Path, sha256: bytes) -> None:
        self.path = path
        self.sha256 = sha256
        self._mapped: MappedT | None = None

    @staticmethod
    @abstractmethod
    def _header_of(head: bytes) -> FileHeader:
        """Of the first `HEADER_BYTES` of a file. Raises `TableError`."""

    @staticmethod
    @abstractmethod
    def _sections_of(header: Any, mapped: mmap.mmap) -> MappedT:
        """Of a file with this header."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """The table in a file. Raises `TableError`, also where its content is not what its header
        says."""
        mapped = cls._opened(path, None)
        table = cls(path, mapped.header.sha256)
        table._mapped = mapped
        return table

    @property
    def is_open(self) -> bool:
        """Whether its file is mapped here."""
        return self._mapped is not None

    def use(self, other: Self) -> None:
        """From now on what that one has opened, in whatever file: it has the same content. Raises
        `TableError` where it has not."""
        if other.sha256 != self.sha256:
            raise TableError(f"{other.path} is another table than the one that is meant")
        self.path, self._mapped = other.path, other._mapped

    def lines(self, begin: int, count: int) -> list[LineT]:
        """So many from this one on, counted from 0. Raises `TableError`."""
        mapped = self._mapped or self._open()
        return [mapped.line(at) for at in range(max(0, begin), min(begin + count, len(self)))]

    def __len__(self) -> int:
        return (self._mapped or self._open()).header.lines

    def __reduce__(self) -> tuple[type[Self], tuple[Path, bytes]]:
        return type(self), (self.path, self.sha256)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def _open(self) -> MappedT:
        self._mapped = self._opened(self.path, self.sha256)
        return self._mapped

    @classmethod
    def _opened(cls, path: Path, sha256: bytes | None) -> MappedT:
        """Raises `TableError`."""
        if sha256 is not None and (known := cls._in_use.get((cls, sha256))) is not None:
            return cast("MappedT", known)
        try:
            with path.open("rb") as file:
                header = cls._header_of(file.read(HEADER_BYTES))
                found = hashlib.file_digest(file, "sha256")
                if found.digest() != header.sha256 or file.tell() != header.size:
                    raise TableError("is not what its header says: delete it, it is built again")
                if sha256 not in (None, header.sha256):
                    raise TableError("is another table than the one that is meant")
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                opened = cls._sections_of(header, mapped)
                return cast(
                    "MappedT", cls._in_use.setdefault((cls, header.sha256), opened)
                )
        except OSError as error:
            raise TableError(f"{path}: {error.strerror or error}") from error
        except TableError as error:
            raise TableError(f"{path} {error}") from None
