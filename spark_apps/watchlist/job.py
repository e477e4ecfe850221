"""Watch list: vehicle and face records × rules in force → `event.candidate` (A-1, A-2).

In: batches of messages, commands. Out: candidates, flushed before the positions are stored, so
that a crash repeats candidates and never loses one; the dispatcher raises each alarm once.
Never: the store's rows. Alone: `spark-submit … spark_apps/watchlist/job.py`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bus.contracts.topics import CONTROL_WATCHLIST, DATA_FACE, DATA_VEHICLE, EVENT_CANDIDATE
from ingest.store.port import StoreBatch
from spark_apps.context import Context
from spark_apps.positions import covered, positions
from spark_apps.watchlist.commands import Commands
from spark_apps.watchlist.state import arrived, candidates
from spark_apps.watchlist.transform import transform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Watchlist:
    """Keeps the rules, rebuilt from their topic at every start."""

    name: str = "watchlist"
    topics: tuple[str, ...] = (DATA_VEHICLE, DATA_FACE)

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.watchlist_trigger_ms
        partitions = [p for p in context.cluster.partitions if p[0] == CONTROL_WATCHLIST]
        self._commands = Commands(context.settings.bus.bootstrap_servers, len(partitions))
        self._commands.drain()

    def transform(self, messages: DataFrame) -> DataFrame:
        """The columns of `Arrived` without those of the quarantine."""
        return transform(messages)

    def on_batch(self, table: pa.Table) -> None:
        """Commands first: a record produced after a command was acknowledged meets it."""
        context = self._context
        self._commands.drain()
        columns = [column.to_pylist() for column in table.columns]
        messages = map(arrived, *columns)
        found = False
        for candidate in candidates(self._commands.rules, messages, context.settings.site.zone):
            context.events.send(EVENT_CANDIDATE, candidate.rule_id, candidate)
            found = True
        if found:
            context.events.flush()
        offsets_read = covered(columns[0], columns[1], columns[2])
        context.store.apply(StoreBatch(), positions(self.name, context.cluster, offsets_read))


if __name__ == "__main__":
    from spark_apps.driver import main

    sys.exit(main(applications=(Watchlist.name,)))
