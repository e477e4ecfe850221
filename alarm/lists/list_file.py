"""A file of plates or of features on a disk, as the rows of its table. Core: `csv_text`.

In: a path. Out: rows, as they come. Never: a file that is too large, not even its first byte;
photos.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from alarm.lists.csv_text import csv_rows
from alarm.lists.excel_rows import excel_rows
from alarm.lists.import_file import TableRow
from alarm.lists.photo_files import is_of_photos

MAX_CSV_BYTES = 512 << 20  # five million lines of a hundred bytes
MAX_EXCEL_BYTES = 128 << 20
_EXCEL_BEGINNINGS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")


class ListFileError(ValueError):
    """The file cannot be a list; what to do stands in the text."""


def check_file(path: Path, max_csv_bytes: int = MAX_CSV_BYTES) -> None:
    """Raises `ListFileError`."""
    try:
        if is_of_photos(path):
            raise ListFileError(
                f"{path}: photos cannot be imported, since no plug-in that makes features of them"
                " is there; write the features of a model of yours into a CSV or Excel file"
            )
        size = path.stat().st_size
        if not path.is_file():
            raise ListFileError(f"{path} is no file")
    except OSError as error:
        raise ListFileError(f"{path}: {error.strerror}") from error
    most = MAX_EXCEL_BYTES if _is_excel(path) else max_csv_bytes
    if size > most:
        raise ListFileError(
            f"{path} has {size >> 20} MiB, and {most >> 20} MiB may be imported: make several "
            "lists of it, or leave out columns"
        )
    if size == 0:
        raise ListFileError(f"{path} is empty")


def table_rows(path: Path, max_csv_bytes: int = MAX_CSV_BYTES) -> Generator[TableRow]:
    """As they come. Raises `ListFileError`, `ExcelUnreadable`, OSError."""
    check_file(path, max_csv_bytes)
    if _is_excel(path):
        yield from excel_rows(path)
        return
    with path.open("rb") as file:
        yield from csv_rows(file)


def _is_excel(path: Path) -> bool:
    """By what it begins with: people give a CSV any name."""
    try:
        with path.open("rb") as file:
            return file.read(4) in _EXCEL_BEGINNINGS
    except OSError as error:
        raise ListFileError(f"{path}: {error.strerror}") from error
