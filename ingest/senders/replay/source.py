"""Reads a file of recorded messages, plain or gzip, one line at a time."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

HASHED_BYTES = 1024 * 1024
MAX_LINE_BYTES = 8 * 1024 * 1024  # a record with inline pictures; longer lines are cut
GZIP_MAGIC = b"\x1f\x8b"


class RecordFile:
    """`identity` depends on the content only: the same file has the same record ids anywhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = path.stat().st_size
        self._raw = path.open("rb")
        head = self._raw.read(HASHED_BYTES)
        self._raw.seek(0)
        digest = hashlib.blake2b(head + str(self.size_bytes).encode(), digest_size=12)
        self.identity = digest.hexdigest()
        self._zipped = head.startswith(GZIP_MAGIC)

    @property
    def position_bytes(self) -> int:
        """How far into the file as it lies on disk (compressed) the reader is."""
        return self._raw.tell()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Line numbers from 1 and lines without their end; empty lines are left out."""
        stream = gzip.GzipFile(fileobj=self._raw) if self._zipped else self._raw
        reader = io.BufferedReader(cast("io.RawIOBase", stream), 1024 * 1024)
        for number, line in enumerate(_bounded_lines(cast("BinaryIO", reader)), 1):
            text = line.strip(b"\r\n")
            if text.strip():
                yield number, text

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._raw.close()


def _bounded_lines(reader: BinaryIO) -> Iterator[bytes]:
    while line := reader.readline(MAX_LINE_BYTES):
        yield line
        while not line.endswith(b"\n") and (line := reader.readline(MAX_LINE_BYTES)):
            pass  # the rest of a line that is too long
