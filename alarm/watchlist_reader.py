"""Reads the watch-list commands to their end before records or candidates are matched.

The topic is the state (compacted) and is read from its beginning at every start. Spark's driver
and the dispatcher use the same reader.
"""

from __future__ import annotations

import logging
import threading

import msgspec

from alarm.rules import RuleSet
from alarm.topic_reader import CATCH_UP_TIMEOUT_S, CatchUpTimeout, TopicReader
from bus.client.kafka.cluster import AdminClient, start_offsets
from bus.client.model import ConsumedRecord
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST, TOPICS
from bus.settings import BusSettings

__all__ = ["CatchUpTimeout", "WatchlistReader", "command_of"]

log = logging.getLogger(__name__)


class WatchlistReader:
    """A reader of all partitions of the command topic. One thread at a time."""

    def __init__(
        self,
        bus: BusSettings,
        admin: AdminClient,
        client_id: str,
        *,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
    ) -> None:
        self.rules = RuleSet()
        self.generation = 0
        """Grows when the topic was made anew: `rules` are those of the new one alone."""
        partitions = [(CONTROL_WATCHLIST, n) for n in range(TOPICS[CONTROL_WATCHLIST].partitions)]
        self._reader = TopicReader(
            bus, admin, partitions, start_offsets,
            client_id=client_id, timeout_s=timeout_s, stopping=stopping,
            on_replaced=self._forget_rules,
        )  # fmt: skip

    def catch_up(self) -> list[WatchCommand]:
        """Apply every command that was on the topic when this was called, and return the new ones.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile.
        """
        read = map(command_of, self._reader.read_to_end())
        return [command for command in read if command is not None and self.rules.apply(command)]

    def close(self) -> None:
        """Leave."""
        self._reader.close()

    def _forget_rules(self) -> None:
        log.error("%s says all rules: %d of the former topic are in force no longer",
                  CONTROL_WATCHLIST, len(self.rules))  # fmt: skip
        self.rules = RuleSet()
        self.generation += 1


def command_of(received: ConsumedRecord) -> WatchCommand | None:
    """The command in a record; None for a tombstone (removals are explicit) and for what is not
    ours."""
    if received.value is None:
        return None
    try:
        return msgspec.json.decode(received.value, type=WatchCommand)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.error("the command at offset %d is not readable: %s", received.offset, error)
        return None
