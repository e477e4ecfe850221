"""Opens in a worker the tables of the lists that rules refer to.

In: what rules refer to, as the driver sent it: records and changes, and of each base the path of
its table at the driver and its hash. Out: tables that are open. The file is the driver's own where
the worker runs on the same machine; elsewhere the worker reads the base from the bus and builds it,
once per machine. Never: a task that matches without a list.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from alarm.lists.base_tables import BaseTables
from alarm.lists.lists_topic import base_lines
from alarm.lists.table import PlateTable
from alarm.rules.references import References
from bus.settings import BusSettings

CLIENT_ID = "streams-lists"


def open_tables(references: References, bus: BusSettings, folder: Path) -> None:
    """Those that this worker has not open; they stay so. Raises `TablesUnavailable`,
    `ListChunkError`, `CatchUpTimeout`, BusError: the batch is tried again."""
    missing = [
        (table, one.record) for one in references.lists.values()
        if isinstance(table := one.table, PlateTable) and not table.is_open
    ]  # fmt: skip
    if not missing:
        return
    tables = BaseTables(folder)
    for table, record in missing:
        table.use(tables.open_or_build(record, partial(base_lines, bus, CLIENT_ID, record)))
    tables.delete_others(one.record for one in references.lists.values())
