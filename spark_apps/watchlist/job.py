"""Watch list: vehicle and face records × rules in force → `event.candidate` (A-1, A-2).

In: batches of messages, commands. Out: candidates, flushed before the positions are stored, so
that a crash repeats candidates and never loses one; the dispatcher raises each alarm once.
Never: the store's rows. Alone: `spark_apps/driver.py --application watchlist`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alarm.commands import Commands
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, EVENT_CANDIDATE
from ingest.normalise import clock_limits
from ingest.store.port import StoreBatch
from spark_apps.context import Context
from spark_apps.message import Covered, Message
from spark_apps.positions import positions
from spark_apps.watchlist.state import candidates
from spark_apps.watchlist.transform import transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Watchlist:
    """Keeps the rules, rebuilt from their topic at every start."""

    name: str = "watchlist"
    topics: tuple[str, ...] = (DATA_VEHICLE, DATA_FACE)
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.watchlist_trigger_ms
        self._commands = Commands(context.settings.bus, context.admin, "streams-commands")
        self._commands.drain()

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return transform(messages)

    def on_batch(self, messages: Sequence[Message], offsets: Covered) -> None:
        """Commands first: a record produced after a command was acknowledged meets it."""
        context = self._context
        self._commands.drain()
        found = False
        site = context.settings.site
        for candidate in candidates(self._commands.rules, messages, site.zone, clock_limits(site)):
            context.events.send(EVENT_CANDIDATE, candidate.rule_id, candidate)
            found = True
        if found:
            context.events.flush()
        context.store.apply(StoreBatch(), positions(self.name, context.cluster, offsets))
