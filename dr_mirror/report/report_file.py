"""The file of a switch: a statement per line, appended and flushed to the device, never rewritten.

In: statements. Out: the same, read; paths. Raises OSError, ReportError. Core:
`dr_mirror.report.plan.switch_report`. Never: a second statement of a kind that is said once.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from bus.files.durable_file import sync_folder
from bus.settings import SiteSettings
from dr_mirror.report.plan.switch_report import (
    EDGE,
    TAIL,
    SwitchStatement,
    decode_statements,
    encode_statement,
)

SUFFIX = ".jsonl"


def reports_folder(site: SiteSettings) -> Path:
    """Where this site keeps them."""
    return site.data_path / "mirror" / "switches"


class ReportFile:
    """Of one site epoch."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = folder / f"{number:06d}{SUFFIX}"

    def read(self) -> list[SwitchStatement]:
        """In the order they were said; none where there is no file. Raises ReportError."""
        try:
            return decode_statements(self.path.read_bytes())
        except FileNotFoundError:
            return []

    def statement_of(self, kind: str) -> SwitchStatement | None:
        """The statement of this kind."""
        return next((one for one in self.read() if one.kind == kind), None)

    def append(self, one: SwitchStatement) -> SwitchStatement:
        """Say it; what was said before is kept and returned instead."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the command and the mirror's process may both say it
            before = next((each for each in self.read() if _is_the_same(each, one)), None)
            if before is not None:
                return before
            _end_torn_line(file.fileno())
            file.write(encode_statement(one))
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)
        return one


def _is_the_same(statement_of: SwitchStatement, one: SwitchStatement) -> bool:
    """Whether it was said before."""
    if one.kind == TAIL:
        return False
    return statement_of.kind == one.kind and (one.kind != EDGE or statement_of.source == one.source)


def _end_torn_line(descriptor: int) -> None:
    """Cut off what a killed command left of a line: it was never said."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    if data and not data.endswith(b"\n"):
        os.ftruncate(descriptor, data.rfind(b"\n") + 1)


def newest_report(folder: Path) -> ReportFile | None:
    """Of the newest site epoch. Other names are passed over."""
    numbers = [int(path.stem) for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal()]
    return ReportFile(folder, max(numbers)) if numbers else None


def all_statements(folder: Path) -> list[SwitchStatement]:
    """Of all site epochs, in their order. Raises OSError, ReportError."""
    return [
        one
        for path in sorted(folder.glob(f"*{SUFFIX}"))
        for one in decode_statements(path.read_bytes())
    ]
