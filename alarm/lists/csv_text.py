"""Rows of a CSV file as they are read: encoding, separator and quotes are recognised. Pure but for
the file that is handed in.

In: a file of bytes that can be read twice. Out: `TableRow`s, as they come. Never: the whole file in
memory; a quotation mark that is not closed as the end of the rest; a setting of Python's `csv` that
others share.
"""

from __future__ import annotations

import codecs
import csv
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from alarm.lists.import_file import TableRow

SEPARATORS = ",;\t，；"
CHINESE = "gb18030"  # GBK and GB2312 are parts of it
MAX_LINE_BYTES = 64 * 1024
MAX_LINES_OF_ROW = 20  # a note may have several
_JUDGED_LINES = 50
_HEAD_BYTES = 256 * 1024
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


class _OpenQuote(Exception):
    """A row has more lines than one has."""


def csv_rows(file: BinaryIO) -> Iterator[TableRow]:
    """All rows, the empty ones, too."""
    encoding = encoding_of(file)
    file.seek(0)
    lines = _PhysicalLines(_decoded(file, encoding))
    head = lines.look_ahead(_JUDGED_LINES)
    separator = separator_of(head)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        number = lines.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _OpenQuote):
            yield TableRow(number, [lines.put_back_all_but_first()], "quotes")
            continue
        yield TableRow(number, cells)


class _PhysicalLines:
    """The lines of a file, one of which may be read again. Invariant: `_taken` are those since
    `begin_row`, the first of which has the number `_number`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._waiting: deque[str] = deque()
        self._taken: list[str] = []
        self._number = 1

    def __iter__(self) -> _PhysicalLines:
        return self

    def __next__(self) -> str:
        if len(self._taken) >= MAX_LINES_OF_ROW:
            raise _OpenQuote
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        self._taken.append(line)
        return line

    def look_ahead(self, count: int) -> list[str]:
        """The next lines, which are read all the same."""
        while len(self._waiting) < count and (line := next(self._lines, None)) is not None:
            self._waiting.append(line)
        return list(self._waiting)[:count]

    def begin_row(self) -> int:
        """The number of the line that comes next."""
        self._number += len(self._taken)
        self._taken.clear()
        return self._number

    def put_back_all_but_first(self) -> str:
        """What was taken for one row is none; its first line."""
        self._waiting.extendleft(reversed(self._taken[1:]))
        del self._taken[1:]
        return self._taken[0].rstrip("\r\n") if self._taken else ""


def encoding_of(file: BinaryIO) -> str:
    """UTF-8 with or without its mark, UTF-16 with it, else what more of the lines can be read
    as: one broken byte makes no file Chinese."""
    file.seek(0)
    start = file.read(4)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    wrong: Counter[str] = Counter()
    file.seek(0)
    for line in _byte_lines(file):
        if not line.isascii():
            for encoding in ("utf-8", CHINESE):
                wrong[encoding] += not _is_readable(line, encoding)
    return CHINESE if wrong[CHINESE] < wrong["utf-8"] else "utf-8"


def _is_readable(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Lines as text; what cannot be read has U+FFFD in its place."""
    if encoding != "utf-16":
        for line in _byte_lines(file):
            yield line.decode(encoding, "replace").replace("\0", "\ufffd")
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    rest = ""
    while block := file.read(_HEAD_BYTES):
        *whole, rest = (rest + decoder.decode(block)).split("\n")
        yield from (f"{line}\n" for line in whole)
        while len(rest) > MAX_LINE_BYTES:
            yield rest[:MAX_LINE_BYTES]
            rest = rest[MAX_LINE_BYTES:]
    if rest:
        yield rest


def _byte_lines(file: BinaryIO) -> Iterator[bytes]:
    """A longer line comes in pieces, which are refused as rows. Lines end as on any system."""
    while line := file.readline(MAX_LINE_BYTES):
        if b"\r" in line and not line.endswith(b"\r\n"):
            yield from line.splitlines(keepends=True)  # as old spreadsheets end them
        else:
            yield line


def separator_of(lines: Iterable[str]) -> str:
    """The one that most lines have, and the most of it."""
    counts = {one: [line.count(one) for line in lines if line.strip()] for one in SEPARATORS}
    best = max(SEPARATORS, key=lambda one: (sum(map(bool, counts[one])), sum(counts[one])))
    return best if sum(counts[best]) else ","
