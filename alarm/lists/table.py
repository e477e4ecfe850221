"""The lines of one base of a list in a file that processes share (`file_table`).

In: the path of a file that `build_table` made. Out: the lines whose plate is a plate, or like it.
Never: a line in memory before it is asked for.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from alarm.lists.file_table import FileTable
from alarm.lists.plate_hash import BITS, hash_of
from alarm.lists.table_layout import TableError, TableHeader, header_of
from bus.contracts.plate_lists import ListLine, Tolerance
from bus.domain.look_alikes import folded_alike, is_near, parts_without_one
from bus.domain.rule_values import PLATE, wanted

__all__ = ["PlateTable", "TableError", "build_table"]

_decode_line = msgspec.msgpack.Decoder(ListLine).decode


def build_table(lines: Iterable[ListLine], path: Path, *, near: bool = False) -> None:
    """See `write_table`."""
    from alarm.lists.build_table import write_table  # NumPy: 20 MB that only who builds one needs

    write_table(lines, path, near=near)


class PlateTable(FileTable["_MappedTable", ListLine]):
    """See `FileTable`."""

    @staticmethod
    def _header_of(head: bytes) -> TableHeader:
        return header_of(head)

    @staticmethod
    def _sections_of(header: TableHeader, mapped: mmap.mmap) -> _MappedTable:
        return _MappedTable(header, mapped)

    def lines_like(self, plate: str, tolerance: Tolerance) -> list[ListLine]:
        """Those whose plate may be this one, in the order of the list. Raises `TableError`."""
        mapped = self._mapped or self._open()
        if tolerance == "distance 1":
            return mapped.near(plate)
        return mapped.alike(plate, exactly=tolerance == "exact")


def wanted_plate(line: ListLine) -> str:
    """The plate of a line in comparable form; empty where it names no vehicle."""
    return wanted(PLATE, line.plate)


@lru_cache(maxsize=1)  # all tables look at one record after the other
def _folded_hash(plate: str) -> int:
    return hash_of(folded_alike(plate))


@lru_cache(maxsize=1)
def _hashes_of_parts(plate: str) -> tuple[int, ...]:
    return tuple(map(hash_of, parts_without_one(plate)))


class _MappedTable:
    """The sections of a file as they are mapped."""

    def __init__(self, header: TableHeader, mapped: mmap.mmap) -> None:
        self.header = header
        whole = memoryview(mapped)
        self._lines, ends, *indexes = (
            whole[begin : begin + length] for begin, length in header.sections
        )
        self._ends = ends.cast("Q")
        self._by_plate = _Index(header.bucket_bits, *indexes[:3])
        self._by_parts = _Index(header.near_bits, *indexes[3:]) if header.near_bits else None

    def line(self, place: int) -> ListLine:
        """The one at a place, from 0."""
        ends = self._ends
        return _decode_line(self._lines[ends[place - 1] if place else 0 : ends[place]])

    def alike(self, plate: str, *, exactly: bool) -> list[ListLine]:
        """Of this plate, or of one that differs in look-alikes only."""
        places = self._by_plate.places(_folded_hash(plate))
        if not places:
            return []
        found = [self.line(place) for place in sorted(places)]
        if exactly:
            return [line for line in found if wanted_plate(line) == plate]
        folded = folded_alike(plate)
        return [line for line in found if folded_alike(wanted_plate(line)) == folded]

    def near(self, plate: str) -> list[ListLine]:
        """Of a plate at distance 1 or less."""
        index = self._by_parts
        if index is None:
            raise TableError("the table was built without distances; delete it and start again")
        places = {place for one in _hashes_of_parts(plate) for place in index.places(one)}
        lines = (self.line(place) for place in sorted(places))
        return [line for line in lines if is_near(wanted_plate(line), plate)]


class _Index:
    """Buckets of entries; see `table_layout`."""

    __slots__ = ("_buckets", "_mask", "_places", "_prints", "_shift")

    def __init__(
        self, bits: int, buckets: memoryview, prints: memoryview, places: memoryview
    ) -> None:
        self._shift = BITS - bits
        self._mask = (1 << min(32, self._shift)) - 1
        self._buckets, self._places = buckets.cast("I"), places.cast("I")
        self._prints = prints.cast("I")

    def places(self, hashed: int) -> list[int]:
        """Of lines whose plate may have this hash."""
        bucket, buckets, prints = hashed >> self._shift, self._buckets, self._prints
        begin, end = buckets[bucket], buckets[bucket + 1]
        if begin == end:
            return _NONE
        wanted_print = hashed & self._mask
        return [self._places[at] for at in range(begin, end) if prints[at] == wanted_print]


_NONE: list[int] = []
