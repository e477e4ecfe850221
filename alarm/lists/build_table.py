"""Makes the file of a table (`table_layout`) from lines, in one pass and bounded memory.

In: lines in the order of the list. Out: a file, written beside its place and renamed: a build that
dies leaves none. Never: all lines in memory; of each line some 20 bytes are, and of each entry of
an index by distance some more.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BufferedRandom
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from alarm.lists.plate_codes import (
    Hashes,
    codes_of,
    folded_codes,
    hashes_of,
    hashes_without_one,
)
from alarm.lists.plate_hash import BITS, MODULUS
from alarm.lists.table_layout import HEADER_BYTES, TableHeader, bits_for
from bus.contracts.plate_lists import ListLine
from bus.domain.rule_values import PLATE, wanted

_LINES_AT_ONCE = 20_000
_PER_BUCKET, _NEAR_PER_BUCKET = 1, 4
_NEAR_PASSES = 8
"""The index by distance is sorted in so many parts, each an eighth of the memory."""
_PARTS_OF_USUAL = 9  # a plate of 8 and what is left of it without each of its characters
_ALIGNMENT, _PRINT_BYTES = 8, 4


def write_table(lines: Iterable[ListLine], path: Path, *, near: bool = False) -> None:
    """Write the table of these lines to `path`; `near`: with an index for distance 1. A line whose
    plate names no vehicle is kept and never found. Raises OSError."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w+b") as file:
            _TableWriter(file).write(lines, near=near)
        beside.replace(path)
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


class _Entries(NamedTuple):
    """Of an index: hashes, and the places of their lines."""

    hashes: Hashes
    places: NDArray[np.uint32]


class _Collected:
    """What is kept of the lines until the indexes are written. `ends`: of each in its section."""

    def __init__(self, near: bool) -> None:
        self._near = near
        self._count = 0
        self._size = 0
        self.ends: list[NDArray[np.uint64]] = []
        self.whole: list[_Entries] = []
        self.parts: list[_Entries] = []

    def add(self, block: list[ListLine], lengths: NDArray[np.uint64]) -> None:
        """The next lines."""
        ends = np.cumsum(lengths, dtype=np.uint64) + np.uint64(self._size)
        self.ends.append(ends)
        self._size = int(ends[-1])
        plates = [wanted(PLATE, line.plate) for line in block]
        codes = codes_of(plates)
        lengths_of_plates = np.count_nonzero(codes, axis=1)
        places = np.arange(self._count, self._count + len(block), dtype=np.uint32)
        self._count += len(block)
        is_named = lengths_of_plates > 0
        self.whole.append(_Entries(hashes_of(folded_codes(codes))[is_named], places[is_named]))
        if not self._near:
            return
        self.parts.append(_Entries(hashes_of(codes)[is_named], places[is_named]))
        for place in range(int(lengths_of_plates.max(initial=0))):
            longer = lengths_of_plates > place
            without = hashes_without_one(codes[longer], place)
            self.parts.append(_Entries(without, places[longer]))


def _sorted_between(found: list[_Entries], low: int, high: int) -> _Entries:
    """Entries with a hash from `low` to below `high`, by hash and place."""
    chosen = [(one, (one.hashes >= low) & (one.hashes < high)) for one in found]
    hashes = np.concatenate([one.hashes[mask] for one, mask in chosen])
    places = np.concatenate([one.places[mask] for one, mask in chosen])
    order = np.argsort(hashes, kind="stable")
    return _Entries(hashes[order], places[order])


def _blocks(lines: Iterable[ListLine]) -> Iterator[list[ListLine]]:
    remaining = iter(lines)
    while block := list(islice(remaining, _LINES_AT_ONCE)):
        yield block


class _TableWriter:
    """Writes section after section, then the header."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file
        self._end = HEADER_BYTES
        self._sections: list[tuple[int, int]] = []
        file.write(bytes(HEADER_BYTES))

    def write(self, lines: Iterable[ListLine], *, near: bool) -> None:
        """All of it."""
        collected = _Collected(near)
        begin, encode = self._end, msgspec.msgpack.Encoder().encode
        for block in _blocks(lines):
            encoded = [encode(line) for line in block]
            self._file.write(b"".join(encoded))
            collected.add(block, np.fromiter(map(len, encoded), np.uint64, count=len(block)))
        self._close_section(begin, self._file.tell() - begin)
        ends = np.concatenate([np.zeros(0, np.uint64), *collected.ends])
        self._append(ends)
        bits = bits_for(len(ends), _PER_BUCKET)
        self._write_index(collected.whole, bits, passes=1)
        near_bits = bits_for(len(ends) * _PARTS_OF_USUAL, _NEAR_PER_BUCKET) if near else 0
        self._write_index(collected.parts, near_bits, passes=_NEAR_PASSES)
        sha256 = self._hash()
        header = TableHeader(sha256, len(ends), bits, near_bits, tuple(self._sections))
        self._file.seek(0)
        self._file.write(header.packed())

    def _append(self, section: np.ndarray) -> None:
        begin = self._end
        self._file.seek(begin)
        section.tofile(self._file)
        self._close_section(begin, section.nbytes)

    def _close_section(self, begin: int, length: int) -> None:
        self._sections.append((begin, length))
        self._end = begin + length + -length % _ALIGNMENT

    def _write_index(self, found: list[_Entries], bits: int, passes: int) -> None:
        """Three sections; empty ones for no bits."""
        entries = sum(len(one.hashes) for one in found) if bits else 0
        starts = np.zeros((1 << bits) + 1 if bits else 0, dtype=np.uint64)
        at_prints = self._end + starts.size * _PRINT_BYTES
        at_prints += -at_prints % _ALIGNMENT
        at_places = at_prints + entries * _PRINT_BYTES
        at_places += -at_places % _ALIGNMENT
        done, step = 0, -(-MODULUS // passes)
        for one in range(passes if entries else 0):
            part = _sorted_between(found, one * step, (one + 1) * step)
            mask = np.uint64((1 << min(32, BITS - bits)) - 1)
            self._write_at(at_prints + done * _PRINT_BYTES, part.hashes & mask)
            self._write_at(at_places + done * _PRINT_BYTES, part.places)
            buckets = (part.hashes >> np.uint64(BITS - bits)).astype(np.int64)
            np.add.at(starts, buckets + 1, np.uint64(1))
            done += len(part.hashes)
        self._append(np.cumsum(starts).astype(np.uint32))
        self._close_section(at_prints, entries * _PRINT_BYTES)
        self._close_section(at_places, entries * _PRINT_BYTES)

    def _write_at(self, begin: int, numbers: np.ndarray) -> None:
        self._file.seek(begin)
        numbers.astype(np.uint32).tofile(self._file)

    def _hash(self) -> bytes:
        """Of all behind the header, up to the end of the last section."""
        begin, length = self._sections[-1]
        self._file.truncate(begin + length)
        self._file.seek(HEADER_BYTES)
        return hashlib.file_digest(self._file, "sha256").digest()
