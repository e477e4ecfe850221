"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

An entry says where to begin a scan; not every batch has one. After a crash recovery rebuilds the
entries above the recovery point.

Kafka's formats: ``.index`` has entries of 8 bytes (offset relative to the base offset, position;
both u32), the offset being the *last* of the batch at that position; ``.timeindex`` entries of 12
bytes (timestamp i64, relative offset u32): the largest timestamp up to that offset.

The active segment keeps its entries in two arrays (8 or 12 bytes per 4 KiB of log) and writes them
out at a flush; a closed segment keeps nothing in memory and searches its file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from broker.disk.port import Disk
from broker.log.files import FilePool

_BLOCK_ENTRIES = 256
"""A search in a file halves the range down to this many entries and reads those at once."""


class SparseIndex:
    """Entries of two rising numbers, in memory while active, in the file once sealed.

    Invariant: keys and values never fall. Invariant: of the arrays, the first ``_saved`` entries
    are in the file, and nothing else is.
    """

    entry: Struct
    key_code: str

    __slots__ = ("_disk", "_files", "_keys", "_saved", "_sealed_count", "_values", "path")

    def __init__(self, path: str, disk: Disk, files: FilePool) -> None:
        self.path = path
        self._disk = disk
        self._files = files
        self._keys: array[int] = array(self.key_code)
        self._values: array[int] = array("I")
        self._saved = 0
        self._sealed_count = -1

    def __len__(self) -> int:
        return len(self._keys) if self._sealed_count < 0 else self._sealed_count

    @property
    def size_bytes(self) -> int:
        return len(self) * self.entry.size

    def append(self, key: int, value: int) -> None:
        """Add an entry; the caller keeps the order."""
        self._keys.append(key)
        self._values.append(value)

    def last(self) -> tuple[int, int] | None:
        """The newest entry."""
        count = len(self)
        return self.at(count - 1) if count else None

    def at(self, slot: int) -> tuple[int, int]:
        """The entry in a slot."""
        if self._sealed_count < 0:
            return self._keys[slot], self._values[slot]
        size = self.entry.size
        key, value = self.entry.unpack(self._read(slot * size, size))
        return key, value

    def floor_key(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is not above ``key``."""
        slot = self._after(key, 0) - 1
        return self.at(slot) if slot >= 0 else None

    def floor_value(self, value: int) -> tuple[int, int] | None:
        """The last entry whose value is not above ``value``."""
        slot = self._after(value, 1) - 1
        return self.at(slot) if slot >= 0 else None

    def _after(self, wanted: int, field: int) -> int:
        """The first slot whose field is above ``wanted``."""
        if self._sealed_count < 0:
            return bisect_right(self._values if field else self._keys, wanted)
        low, high = 0, self._sealed_count
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.at(middle)[field] <= wanted:
                low = middle + 1
            else:
                high = middle
        size = self.entry.size
        block = self._read(low * size, (high - low) * size)
        block = block[: len(block) // size * size]
        numbers = [pair[field] for pair in self.entry.iter_unpack(block)]
        return low + bisect_right(numbers, wanted)

    def _read(self, position: int, size: int) -> bytes | bytearray:
        return self._files.read(self._files.get(self.path), position, size)

    def save(self) -> None:
        """Write the entries that are not in the file yet."""
        if self._sealed_count < 0 and self._saved < len(self._keys):
            self._write_unsaved()

    def _write_unsaved(self) -> None:
        pack = self.entry.pack
        fresh = zip(self._keys[self._saved :], self._values[self._saved :], strict=True)
        data = b"".join([pack(key, value) for key, value in fresh])
        file = self._disk.open(self.path, create=True)
        try:
            file.truncate(self._saved * self.entry.size)  # a partial earlier attempt
            file.append(data)
        finally:
            file.close()
        self._saved = len(self._keys)

    def seal(self) -> None:
        """The segment is closed: write everything out and free the memory."""
        if self._sealed_count < 0:
            self._write_unsaved()  # even nothing: a closed segment has its files
            self._sealed_count = len(self._keys)
            self._drop_arrays()

    def attach(self) -> bool:
        """Use the file's entries as they are, sealed; false if there is no file of whole
        entries."""
        if not self._disk.exists(self.path):
            return False
        size = self._disk.size_of(self.path)
        self._drop_arrays()
        self._sealed_count = size // self.entry.size
        return size % self.entry.size == 0

    def load(self) -> None:
        """Load the entries into memory (the segment becomes active)."""
        if self._sealed_count < 0:
            return
        size = self.entry.size
        data = self._files.get(self.path).read(0, self._sealed_count * size)
        self._files.forget(self.path)
        self._drop_arrays()
        for key, value in self.entry.iter_unpack(data[: len(data) // size * size]):
            self.append(key, value)
        self._saved = len(self._keys)
        self._sealed_count = -1

    def is_sane(self, last_value: int) -> bool:
        """Whether keys and values rise and no value is above ``last_value`` (loaded only)."""
        keys, values = self._keys, self._values
        pairs = range(1, len(keys))
        return all(keys[i - 1] <= keys[i] and values[i - 1] <= values[i] for i in pairs) and (
            not values or values[-1] <= last_value
        )

    def truncate(self, count: int) -> None:
        """Forget all but the first ``count`` entries (loaded only)."""
        del self._keys[count:], self._values[count:]
        self._saved = min(self._saved, count)
        if self._disk.exists(self.path):
            file = self._disk.open(self.path)
            try:
                file.truncate(self._saved * self.entry.size)
            finally:
                file.close()

    def count_values_below(self, value: int) -> int:
        """How many entries have a smaller value (loaded only)."""
        return bisect_left(self._values, value)

    def _drop_arrays(self) -> None:
        self._keys, self._values = array(self.key_code), array("I")
        self._saved = 0


class OffsetIndex(SparseIndex):
    """Relative last offset of a batch to the batch's position."""

    entry = Struct(">II")
    key_code = "I"
    __slots__ = ()


class TimeIndex(SparseIndex):
    """Largest timestamp so far to the relative last offset of the batch that has it."""

    entry = Struct(">qI")
    key_code = "q"
    __slots__ = ()
