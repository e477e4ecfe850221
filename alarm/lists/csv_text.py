"""Rows of a CSV file as they are read: encoding, separator and quotes are recognised.

In: a file of bytes that can be read twice. Out: `TableRow`s, as they come. Never: the whole file in
memory; a quotation mark that is not closed as the end of the rest; a setting of Python's `csv` that
others share.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO

from alarm.lists.columns import has_heading
from alarm.lists.import_file import TableRow

SEPARATORS = ",;\t，；"
CHINESE = "gb18030"  # GBK and GB2312 are parts of it
MAX_LINE_BYTES = MAX_LINE_CHARACTERS = 64 * 1024
MAX_LINES_OF_ROW = 20  # a note may have several
_JUDGED_LINES = 50
_BLOCK_BYTES = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip


class _OpenQuote(Exception):
    """A row has more lines than one has."""


def csv_rows(file: BinaryIO) -> Iterator[TableRow]:
    """All rows, the empty ones, too."""
    lines = _LineSource(_decoded(file, encoding_of(file)))
    head = lines.peek(_JUDGED_LINES)
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


class _LineSource:
    """The lines of a file, one of which may be read again. Invariant: `_taken` are those since
    `begin_row`, the first of which has the number `_number`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._waiting: deque[str] = deque()
        self._taken: list[str] = []
        self._number = 1

    def __iter__(self) -> _LineSource:
        return self

    def __next__(self) -> str:
        if len(self._taken) >= MAX_LINES_OF_ROW:
            raise _OpenQuote
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        self._taken.append(line)
        return line

    def peek(self, count: int) -> list[str]:
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
    """UTF-8 with or without its mark, UTF-16 with it, GB18030; where none is right everywhere, what
    more of the lines can be read as: one broken byte makes no file Chinese."""
    file.seek(0)
    start = file.read(4)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    for encoding in ("utf-8", CHINESE):
        if _is_whole(file, encoding):
            return encoding
    wrong: Counter[str] = Counter()
    file.seek(0)
    while line := file.readline(MAX_LINE_BYTES):
        for encoding in ("utf-8", CHINESE):
            wrong[encoding] += not _is_readable(line, encoding)
    return CHINESE if wrong[CHINESE] < wrong["utf-8"] else "utf-8"


def _is_whole(file: BinaryIO, encoding: str) -> bool:
    """Whether all of it can be read so."""
    decoder = codecs.getincrementaldecoder(encoding)()
    file.seek(0)
    try:
        while block := file.read(_BLOCK_BYTES):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _is_readable(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Lines as text, ended as on any system; what cannot be read has U+FFFD in its place. A longer
    line comes in pieces."""
    file.seek(0)
    text = io.TextIOWrapper(file, encoding, errors="replace", newline="")
    try:
        yield from iter(partial(text.readline, MAX_LINE_CHARACTERS), "")
    finally:
        text.detach()


def separator_of(lines: Sequence[str]) -> str:
    """The one that sets a heading apart, else the one that most lines have, and the most of it."""
    for one in SEPARATORS:
        if any(has_heading(line.strip("\r\n").split(one)) for line in lines if one in line):
            return one
    counts = {one: [line.count(one) for line in lines if line.strip()] for one in SEPARATORS}
    best = max(SEPARATORS, key=lambda one: (sum(map(bool, counts[one])), sum(counts[one])))
    return best if sum(counts[best]) else ","
