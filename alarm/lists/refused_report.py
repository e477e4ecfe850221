"""The file that says of each refused line what stood there and why it was refused.

In: refusals, as they come. Out: a CSV that spreadsheets open as it is, in English and Chinese.
Never: a text of somebody else's file that a spreadsheet would compute.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from alarm.lists.import_file import REASONS, RefusedLine

HEADINGS = ("line / 行", "what stands there / 内容", "reason", "原因")
_COMPUTED = ("=", "+", "-", "@", "\t", "\r")


class RefusedReport:
    """`counts`: how many of each reason. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        self._file = path.open("w", encoding="utf-8-sig", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(HEADINGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Where nothing was refused there is no report."""
        self._file.close()
        if not self.counts:
            self.path.unlink(missing_ok=True)

    def add(self, refused: RefusedLine) -> None:
        """The next one."""
        self.counts[refused.reason] += 1
        english, chinese = reason_texts(refused)
        self._writer.writerow((refused.number, as_text(refused.text), english, chinese))


def reason_texts(refused: RefusedLine) -> tuple[str, str]:
    """In English and Chinese."""
    english, chinese = REASONS[refused.reason]
    return f"{english} {refused.detail}".strip(), f"{chinese} {refused.detail}".strip()


def as_text(text: str) -> str:
    """A cell that stays one: spreadsheets compute what begins like a formula."""
    return f"'{text}" if text.startswith(_COMPUTED) else text
