"""The faces of a gallery's base in a file that processes share: mapped, read-only.

In: the path of a file that `build_face_table` made. Out: the face that a feature resembles most;
lines by place or entry. Never: a feature in a process's own memory; a table whose content is not
what its hash says. A table pickles as its path and its hash, and opens the file itself where it is
used first.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from alarm.lists.face_layout import (
    ALIGNMENT,
    HEADER_BYTES,
    SECTIONS,
    FaceTableHeader,
    face_header_of,
)
from alarm.lists.table_layout import TableError
from alarm.rules.face_scores import Rows, nearest, rows_of, scores, squares_of
from bus.contracts.feature_models import FeatureModel, Measure
from bus.contracts.plate_lists import FaceLine
from bus.domain.feature_models import is_feature

_decode_line = msgspec.msgpack.Decoder(FaceLine).decode
_FACES_AT_ONCE = 4_096


def build_face_table(lines: Iterable[FaceLine], path: Path, model: FeatureModel) -> None:
    """Write the table of these lines to `path`, beside it first: a build that dies leaves none.
    Raises OSError, and `TableError` for a line whose feature is none of the model."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w+b") as file:
            file.write(bytes(HEADER_BYTES))
            entries: list[str] = []
            encoded: list[bytes] = []
            squares: list[Rows] = []
            remaining = iter(lines)
            while block := list(islice(remaining, _FACES_AT_ONCE)):
                if wrong := [one for one in block if not is_feature(one.feature, model)]:
                    raise TableError(f"{wrong[0].entry} has no feature of {model.name}")
                features = [line.feature for line in block]
                rows = rows_of(features, model.dimensions, model.measure)
                squares.append(squares_of(rows))
                file.write(rows.astype("<f4").tobytes())
                entries += [line.entry for line in block]
                encoded += [
                    msgspec.msgpack.encode(msgspec.structs.replace(line, feature=b""))
                    for line in block
                ]
            sections = [(HEADER_BYTES, file.tell() - HEADER_BYTES)]
            ends = np.cumsum([len(one) for one in encoded], dtype="<u8")
            order = np.asarray(sorted(range(len(entries)), key=entries.__getitem__), dtype="<u4")
            joined = np.concatenate([np.zeros(0, np.float32), *squares])
            for content in (joined.astype("<f4"), b"".join(encoded), ends, order):
                begin = sum(sections[-1])
                begin += -begin % ALIGNMENT
                file.seek(begin)
                written = content if isinstance(content, bytes) else content.tobytes()
                file.write(written)
                sections.append((begin, len(written)))
            file.truncate(sum(sections[-1]))
            file.seek(HEADER_BYTES)
            sha256 = hashlib.file_digest(file, "sha256").digest()
            file.seek(0)
            header = FaceTableHeader(sha256, len(entries), model.dimensions, tuple(sections))
            file.write(header.packed())
        beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


class FaceTable:
    """A table. Without its file open until something is asked."""

    def __init__(self, path: Path, sha256: bytes) -> None:
        self.path = path
        self.sha256 = sha256
        self._mapped: _MappedFaces | None = None

    @classmethod
    def open(cls, path: Path) -> FaceTable:
        """The table in a file. Raises `TableError`, also where its content is not what its header
        says."""
        mapped = _opened(path, None)
        table = cls(path, mapped.header.sha256)
        table._mapped = mapped
        return table

    @property
    def is_open(self) -> bool:
        """Whether its file is mapped here."""
        return self._mapped is not None

    @property
    def dimensions(self) -> int:
        """Numbers of a feature. Raises `TableError`."""
        return (self._mapped or self._open()).header.dimensions

    def use(self, other: FaceTable) -> None:
        """From now on what that one has opened, in whatever file: it has the same content. Raises
        `TableError` where it has not."""
        if other.sha256 != self.sha256:
            raise TableError(f"{other.path} is another table than the one that is meant")
        self.path, self._mapped = other.path, other._mapped

    def nearest(
        self, readings: Rows, measure: Measure, excluded: Sequence[int]
    ) -> list[tuple[int, float] | None]:
        """See `face_scores.nearest`. Raises `TableError`."""
        mapped = self._mapped or self._open()
        return nearest(mapped.rows, mapped.squares, readings, measure, excluded)

    def score(self, place: int, reading: Rows, measure: Measure) -> float:
        """Of one face. Raises `TableError`."""
        mapped = self._mapped or self._open()
        return float(scores(mapped.rows[place : place + 1], reading, measure)[0])

    def place_of(self, entry: str) -> int | None:
        """Of an entry's line. Raises `TableError`."""
        return (self._mapped or self._open()).place_of(entry)

    def lines(self, begin: int, count: int) -> list[FaceLine]:
        """So many from this one on, counted from 0, without their features. Raises `TableError`."""
        mapped = self._mapped or self._open()
        return [mapped.line(at) for at in range(max(0, begin), min(begin + count, len(self)))]

    def __len__(self) -> int:
        return (self._mapped or self._open()).header.lines

    def __reduce__(self) -> tuple[type[FaceTable], tuple[Path, bytes]]:
        return FaceTable, (self.path, self.sha256)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaceTable) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def _open(self) -> _MappedFaces:
        self._mapped = _opened(self.path, self.sha256)
        return self._mapped


class _MappedFaces:
    """The sections of a file as they are mapped."""

    def __init__(self, header: FaceTableHeader, mapped: mmap.mmap) -> None:
        self.header = header
        whole = memoryview(mapped)
        rows, squares, self._lines, ends, order = (
            whole[begin : begin + length] for begin, length in header.sections
        )
        shape = (header.lines, header.dimensions)
        self.rows: Rows = np.frombuffer(rows, dtype="<f4").reshape(shape)
        self.squares: Rows = np.frombuffer(squares, dtype="<f4")
        self._ends, self._order = ends.cast("Q"), order.cast("I")

    def line(self, place: int) -> FaceLine:
        """The one at a place, from 0."""
        ends = self._ends
        return _decode_line(self._lines[ends[place - 1] if place else 0 : ends[place]])

    def place_of(self, entry: str) -> int | None:
        """Halves the order of entries."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            if self.line(self._order[middle]).entry < entry:
                low = middle + 1
            else:
                high = middle
        if low == len(self._order) or self.line(self._order[low]).entry != entry:
            return None
        return self._order[low]


_in_use: WeakValueDictionary[bytes, _MappedFaces] = WeakValueDictionary()
"""By hash. Rules come again with each change; a table that is open is not read through again."""


def _opened(path: Path, sha256: bytes | None) -> _MappedFaces:
    """Raises `TableError`."""
    if sha256 is not None and (known := _in_use.get(sha256)) is not None:
        return known
    try:
        with path.open("rb") as file:
            header = face_header_of(file.read(HEADER_BYTES))
            found = hashlib.file_digest(file, "sha256")
            if found.digest() != header.sha256 or file.tell() != header.size:
                raise TableError("is not what its header says: delete it, it is built again")
            if sha256 not in (None, header.sha256) or len(header.sections) != SECTIONS:
                raise TableError("is another table than the one that is meant")
            opened = _MappedFaces(header, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return _in_use.setdefault(header.sha256, opened)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}") from error
    except TableError as error:
        raise TableError(f"{path} {error}") from None
