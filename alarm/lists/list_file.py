"""A file of plates on a disk, as its lines and refusals come. Core: `import_file`, `csv_text`.

In: a path. Out: what `read_lines` gives of it. Never: a file that is too large, not even its first
byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from alarm.lists.csv_text import csv_rows
from alarm.lists.excel_rows import excel_rows
from alarm.lists.import_file import RefusedLine, read_lines
from bus.contracts.plate_lists import ListLine

MAX_CSV_BYTES = 512 << 20  # five million lines of a hundred bytes
MAX_EXCEL_BYTES = 128 << 20
_EXCEL_BEGINNINGS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


class ListFileError(ValueError):
    """The file cannot be a list; what to do stands in the text."""


def check_file(path: Path) -> None:
    """Raises `ListFileError`."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ListFileError(f"{path} is no file")
    except OSError as error:
        raise ListFileError(f"{path}: {error.strerror}") from error
    most = MAX_EXCEL_BYTES if _is_excel(path) else MAX_CSV_BYTES
    if size > most:
        raise ListFileError(
            f"{path} has {size >> 20} MiB, and {most >> 20} MiB may be imported: make several "
            "lists of it, or leave out columns"
        )
    if size == 0:
        raise ListFileError(f"{path} is empty")


def lines_of(path: Path) -> Iterator[ListLine | RefusedLine]:
    """Raises `ListFileError`, `NoPlateColumn`, `TooManyLines`, `ExcelUnreadable`, OSError."""
    check_file(path)
    if _is_excel(path):
        yield from read_lines(excel_rows(path))
        return
    with path.open("rb") as file:
        yield from read_lines(csv_rows(file))


def _is_excel(path: Path) -> bool:
    """By what it begins with: people give a CSV any name."""
    try:
        with path.open("rb") as file:
            return file.read(4) in _EXCEL_BEGINNINGS
    except OSError as error:
        raise ListFileError(f"{path}: {error.strerror}") from error
