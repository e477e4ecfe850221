"""The file of a site's own table of misreadings, as `[site] confusion_table` names it.

In: settings. Out: the table that rules go by, read again when the file was replaced. Never: no
table at all: a file that is missing or none leaves the one before in force, and is told in the log.
"""

from __future__ import annotations

import logging
from pathlib import Path

from bus.domain.confusion_table import (
    MAX_FILE_BYTES,
    PACKAGED,
    ConfusionTable,
    ConfusionTableError,
    table_of,
)
from bus.settings import SiteSettings

log = logging.getLogger(__name__)


class ConfusionSource:
    """Of one process. Where threads share it the file may be read once by each."""

    def __init__(self, path: Path | None) -> None:
        """`path`: None for the packaged table."""
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._table = PACKAGED
        self._is_missing = False

    def read(self) -> ConfusionTable:
        """As the file is; one look at its entry where it is the same one."""
        if self._path is None:
            return self._table
        try:
            entry = self._path.stat()
            stamp = entry.st_ino, entry.st_mtime_ns, entry.st_size
            if stamp != self._stamp:
                self._stamp = stamp
                self._table = table_at(self._path)
                log.info("misreadings go by table %s of %s", self._table.version, self._path)
            self._is_missing = False
        except (OSError, ConfusionTableError) as error:
            if isinstance(error, ConfusionTableError) or not self._is_missing:
                log.error(
                    "%s is not used, misreadings go by %s: %s",
                    self._path, self._table.version or "the packaged table", error,
                )  # fmt: skip
            self._is_missing = isinstance(error, OSError)
        return self._table


def source_of(site: SiteSettings) -> ConfusionSource:
    """What the setting names."""
    return ConfusionSource(site.confusion_path)


def table_at(path: Path) -> ConfusionTable:
    """Raises `ConfusionTableError`, OSError."""
    with path.open("rb") as opened:
        return table_of(opened.read(MAX_FILE_BYTES + 1))
