"""What a city does before its first record: the watch list, and what killed cities still owe.

In: the line to the bus. Out: acknowledged commands, told counters. Never: records.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from bus.client.errors import ClientFailed, DeliveryError
from bus.client.producer import Outcome
from bus.contracts.commands import WatchCommand
from bus.contracts.meters import Sent
from bus.errors import BusError
from ingest.city.bus_uplink import BusUplink
from ingest.city.healing import Unfinished, unfinished_runs
from ingest.city.truth import truth_files
from ingest.city.watch import Watch

log = logging.getLogger(__name__)

POLL_S = 0.02
PAUSE_S = 0.5  # the topic may not have been made yet


async def put_on_watch(bus: BusUplink, watches: Sequence[Watch], stopping: asyncio.Event) -> None:
    """Returns when the broker has the rules: a record sent afterwards must meet them."""
    for watch in watches:
        command = watch.command(_now_ms())
        while not stopping.is_set() and not await _commanded(bus, command, stopping):
            await asyncio.sleep(PAUSE_S)


def tell_owed_counters(bus: BusUplink, directory: Path, this_run: str) -> None:
    """Tell what cities that were killed could not tell any more, then write their end."""
    earlier = [path for path in truth_files(directory) if this_run not in path.name]
    for run in unfinished_runs(earlier):
        log.info("%s has no end; telling its %d counters", run.path.name, len(run.counters))
        bus.tell(run.counters, _Owed(run).told)


async def _commanded(bus: BusUplink, command: WatchCommand, stopping: asyncio.Event) -> bool:
    outcomes: list[Outcome] = []
    try:
        bus.command(command, outcomes.append)
    except ClientFailed:
        raise
    except BusError as error:
        log.warning("watch command %s: %s; again", command.rule_id, error)
        return False
    while not outcomes and not stopping.is_set():
        await asyncio.sleep(POLL_S)
    if outcomes and isinstance(outcomes[0], DeliveryError):
        log.warning("watch command %s: %s; again", command.rule_id, outcomes[0])
    return bool(outcomes) and not isinstance(outcomes[0], DeliveryError)


class _Owed:
    """Writes a run's end when its last counter is acknowledged (in the polling thread)."""

    def __init__(self, run: Unfinished) -> None:
        self._run = run
        self._open = len(run.counters)
        if not self._open:
            run.finish(_now_ms())

    def told(self, messages: list[Sent]) -> None:
        self._open -= len(messages)
        if self._open == 0:
            self._run.finish(_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
