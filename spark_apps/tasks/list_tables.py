"""Opens in a worker the tables of the lists that rules refer to.

In: what rules refer to, as the driver sent it: records and changes, and of each base the path of
its table at the driver and its hash. Out: tables that are open. The file is the driver's own where
the worker runs on the same machine; elsewhere the worker reads the base from the bus and builds it,
once per machine. Never: a task that matches without a list.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alarm.lists.base_tables import BaseTables
from alarm.lists.lists_topic import base_faces, base_lines
from alarm.lists.table import PlateTable
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.references import References
from bus.settings import BusSettings

if TYPE_CHECKING:
    from alarm.lists.face_table import FaceTable

CLIENT_ID = "streams-lists"


def open_tables(references: References, bus: BusSettings, folder: Path) -> None:
    """Those that this worker has not open; they stay so. Raises `TablesUnavailable`,
    `ListChunkError`, `CatchUpTimeout`, BusError: the batch is tried again."""
    closed = [
        (table, one.record) for one in references.lists.values()
        if isinstance(table := one.table, PlateTable) and not table.is_open
    ]  # fmt: skip
    galleries = _closed_galleries(references)
    if not closed and not galleries:
        return
    tables = BaseTables(folder)
    for table, record in closed:
        table.use(tables.open_or_build(record, partial(base_lines, bus, CLIENT_ID, record)))
    for faces, one in galleries:
        lines = partial(base_faces, bus, CLIENT_ID, one.record)
        faces.use(tables.open_or_build_faces(one.record, one.model, lines))
    records = [one.record for one in references.lists.values()]
    tables.delete_others([*records, *(one.record for one in references.galleries.values())])


def _closed_galleries(references: References) -> list[tuple[FaceTable, FaceGallery]]:
    if not references.galleries:
        return []
    from alarm.lists.face_table import FaceTable  # NumPy, which lists of plates do without

    return [
        (table, one) for one in references.galleries.values()
        if isinstance(table := one.table, FaceTable) and not table.is_open
    ]  # fmt: skip
