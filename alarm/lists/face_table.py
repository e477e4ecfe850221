"""The faces of a gallery's base in a file that processes share (`file_table`).

In: the path of a file that `build_face_table` made. Out: the face that a feature resembles most;
lines by place or entry. Never: a feature in a process's own memory.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from alarm.lists.face_layout import (
    ALIGNMENT,
    FaceTableHeader,
    face_header_of,
)
from alarm.lists.file_table import FileTable
from alarm.lists.table_layout import HEADER_BYTES, TableError
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


class FaceTable(FileTable["_MappedFaces", FaceLine]):
    """See `FileTable`; its lines are without their features."""

    @staticmethod
    def _header_of(head: bytes) -> FaceTableHeader:
        return face_header_of(head)

    @staticmethod
    def _sections_of(header: FaceTableHeader, mapped: mmap.mmap) -> _MappedFaces:
        return _MappedFaces(header, mapped)

    @property
    def dimensions(self) -> int:
        """Numbers of a feature. Raises `TableError`."""
        return (self._mapped or self._open()).header.dimensions

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

    def feature(self, place: int) -> bytes:
        """Of one face, as it is multiplied. Raises `TableError`."""
        mapped = self._mapped or self._open()
        found: bytes = mapped.rows[place].tobytes()
        return found

    def place_of(self, entry: str) -> int | None:
        """Of an entry's line. Raises `TableError`."""
        return (self._mapped or self._open()).place_of(entry)


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
