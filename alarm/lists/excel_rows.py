"""Rows of an Excel file, read by a process of its own: `python -m alarm.lists.excel_rows FILE`.

A file of a few bytes can ask for all the memory of a machine: a sheet is a rectangle, and its last
cell may stand in the last column of the last row. The process has a limit, and whoever waits for
its rows outlives it. Out: a row each as JSON, with its number in the sheet; or one object, what is
wrong. Never: formulas: their values, as they were saved.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

import msgspec

from alarm.lists.import_file import TableRow

MAX_MEMORY_BYTES = 3 << 30
MAX_CPU_S = 300
MAX_UNPACKED_BYTES = 2 << 30
MAX_CELL_CHARACTERS = 32_767  # as many as Excel keeps; a feature needs thousands
MAX_COLUMNS = 200
_encode = msgspec.json.Encoder().encode


class ExcelUnreadable(ValueError):
    """The file is damaged, protected by a password, or too large."""


class _Problem(msgspec.Struct):
    problem: str


def excel_rows(path: Path) -> Iterator[TableRow]:
    """As they come. Raises `ExcelUnreadable`."""
    program = [sys.executable, "-m", "alarm.lists.excel_rows", str(path)]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        try:
            for line in process.stdout or ():
                if line.startswith(b"{"):
                    raise ExcelUnreadable(msgspec.json.decode(line, type=_Problem).problem)
                number, cells = msgspec.json.decode(line, type=tuple[int, list[str]])
                yield TableRow(number, cells)
            if process.wait():
                raise ExcelUnreadable(
                    "the sheet needs more memory or time than it may; save it as CSV (UTF-8)"
                )
        finally:
            process.kill()


def _main(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    out = sys.stdout.buffer
    try:
        _check_unpacked(path)
        for number, row in _rows(path):
            out.write(_encode((number, row)) + b"\n")
    except _SheetError as error:
        out.write(_encode({"problem": str(error)}) + b"\n")
    out.flush()


class _SheetError(ValueError):
    pass


def _check_unpacked(path: Path) -> None:
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as packed:  # .xls is none
        size = sum(entry.file_size for entry in packed.infolist())
        if size > MAX_UNPACKED_BYTES:
            raise _SheetError(f"it unpacks to {size >> 20} MiB; save it as CSV (UTF-8)")


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Of the first sheet that has any."""
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError

    try:
        with CalamineWorkbook.from_path(path) as workbook:
            for name in workbook.sheet_names:
                sheet = workbook.get_sheet_by_name(name)
                if sheet.start is None:
                    continue
                if sheet.width > MAX_COLUMNS:
                    raise _SheetError(f"sheet {name} has {sheet.width} columns; save those of the "
                                      "list alone")  # fmt: skip
                for number, row in enumerate(sheet.iter_rows(), 1):
                    yield number, [_text(cell) for cell in row]
                return
    except PasswordError as error:
        raise _SheetError("it is protected by a password; save it without one") from error
    except (CalamineError, OSError, ValueError) as error:
        raise _SheetError(f"it cannot be read as a sheet: {error}") from error


def _text(cell: object) -> str:
    if isinstance(cell, datetime | date):
        return cell.isoformat()[:10]
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)[:MAX_CELL_CHARACTERS]


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
