"""The tables of bases in the data directory: each built once on a machine, whoever needs it first.

In: a list's record, its lines where they are needed. Out: `PlateTable`s and, of galleries,
`FaceTable`s, opened and checked; files `BASE.table`, or `BASE.near.table` with an index for
distance 1, and `BASE.faces`. Never: a half file under that name;
two builds of one table at once; a file taken away that a list in force names.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from alarm.lists.table import PlateTable, TableError, build_table
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import FaceLine, ListLine, ListRecord
from bus.files.lock_file import hold_lock_file
from bus.runtime import wall_clock
from bus.settings import SiteSettings

if TYPE_CHECKING:
    from alarm.lists.face_table import FaceTable

log = logging.getLogger(__name__)
Table = TypeVar("Table", PlateTable, "FaceTable")

LOCK_S = 60.0
"""Five million lines are built in a third of it."""
_LOCK_POLL_S = 0.05
KEPT_S = 3600.0
"""A file that no list names any more is kept so long: another process may still have to open it."""
_ENDING, _NEAR, _FACES = ".table", ".near", ".faces"


def tables_folder(site: SiteSettings) -> Path:
    """Of this machine."""
    return site.data_path / "lists"


class TablesUnavailable(Exception):
    """The file of a table can be neither opened nor built."""


class BaseTables:
    """The folder of a machine; any number of processes use it. Invariant: `_used` are the files
    that were opened here and are not known to be named by no list; their time is that of the last
    opening."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: set[Path] = set()

    def path_of(self, record: ListRecord) -> Path:
        """Where the table of its base is, or belongs."""
        if record.is_gallery:
            return self._folder / f"{record.base}{_FACES}"
        near = _NEAR if record.tolerance == "distance 1" else ""
        return self._folder / f"{record.base}{near}{_ENDING}"

    def open_or_build(
        self, record: ListRecord, lines: Callable[[], Iterable[ListLine]]
    ) -> PlateTable:
        """`lines` is called where this process has to build it. Raises `TablesUnavailable`, and
        what `lines` does."""
        is_near = record.tolerance == "distance 1"
        return self._open_or_build(
            self.path_of(record), PlateTable.open,
            lambda path: build_table(lines(), path, near=is_near),
        )  # fmt: skip

    def open_or_build_faces(
        self, record: ListRecord, model: FeatureModel, lines: Callable[[], Iterable[FaceLine]]
    ) -> FaceTable:
        """The same of a gallery."""
        from alarm.lists.face_table import FaceTable, build_face_table  # NumPy, as `build_table`

        return self._open_or_build(
            self.path_of(record), FaceTable.open,
            lambda path: build_face_table(lines(), path, model),
        )  # fmt: skip

    def _open_or_build(
        self, path: Path, open_table: Callable[[Path], Table], build: Callable[[Path], None]
    ) -> Table:
        self._used.add(path)
        if (table := _opened(path, open_table)) is not None:
            return table
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with _locked(path):
                if (table := _opened(path, open_table)) is None:
                    begin_s = time.monotonic()
                    build(path)
                    table = open_table(path)
                    log.info("%s: %d lines, built in %.1f s", path.name, len(table),
                             time.monotonic() - begin_s)  # fmt: skip
            return table
        except (OSError, TableError) as error:
            raise TablesUnavailable(f"{path}: {error}") from error

    def delete_others(self, in_force: Iterable[ListRecord]) -> None:
        """Files that no list has named for an hour, by whoever knew it last."""
        named = {self.path_of(record) for record in in_force}
        for path in self._used - named:
            _touch(path)
        self._used &= named
        oldest_s = wall_clock.now_ms() / 1000 - KEPT_S
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.with_name(path.name.removesuffix(".lock")) not in named:
                    with suppress(OSError):
                        if path.stat().st_mtime < oldest_s:
                            path.unlink()


def _opened(path: Path, open_table: Callable[[Path], Table]) -> Table | None:
    """None where there is none, or one that is damaged: that one is built again."""
    if not path.exists():
        return None
    try:
        _touch(path)
        return open_table(path)
    except TableError as error:
        log.error("%s", error)
        return None


def _touch(path: Path) -> None:
    with suppress(OSError):
        os.utime(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """While another process builds it, wait. Raises OSError."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            file = hold_lock_file(path.with_name(f"{path.name}.lock"))
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_S)
    with closing(file):
        yield
