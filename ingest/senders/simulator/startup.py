"""What the city does before its first record: puts its rules on the watch list and publishes
counters that a killed run never sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from bus.client.kafka.errors import ClientFailed, DeliveryError
from bus.client.kafka.producer import DeliveryReport
from bus.contracts.commands import WatchCommand
from bus.contracts.meters import Sent
from bus.errors import BusError
from bus.runtime import wall_clock
from ingest.senders.simulator.bus_uplink import BusUplink
from ingest.senders.simulator.described_car import DescribedCarRule
from ingest.senders.simulator.ground_truth import truth_files
from ingest.senders.simulator.recovery import UnfinishedRun, unfinished_runs
from ingest.senders.simulator.watched_cars import WatchRule

log = logging.getLogger(__name__)

POLL_S = 0.02
PAUSE_S = 0.5  # the topic may not have been made yet


async def put_watch_rules(
    bus: BusUplink, rules: Sequence[WatchRule | DescribedCarRule], stopping: asyncio.Event
) -> None:
    """Returns when the broker has the rules: a record sent afterwards must meet them."""
    for rule in rules:
        command = rule.command(wall_clock.now_ms())
        while not stopping.is_set() and not await _send_command(bus, command, stopping):
            await asyncio.sleep(PAUSE_S)


def send_owed_counters(bus: BusUplink, directory: Path, this_run: str) -> None:
    """Publish the counters that killed runs never sent, then write their end markers."""
    earlier = [path for path in truth_files(directory) if this_run not in path.name]
    for run in unfinished_runs(earlier):
        log.info("%s has no end; sending its %d counters", run.path.name, len(run.counters))
        bus.send_counters(run.counters, _OwedCounters(run).on_acknowledged)


async def _send_command(bus: BusUplink, command: WatchCommand, stopping: asyncio.Event) -> bool:
    outcomes: list[DeliveryReport] = []
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


class _OwedCounters:
    """Writes a run's end when its last counter is acknowledged (in the polling thread)."""

    def __init__(self, run: UnfinishedRun) -> None:
        self._run = run
        self._open = len(run.counters)
        if not self._open:
            run.finish(wall_clock.now_ms())

    def on_acknowledged(self, messages: list[Sent]) -> None:
        self._open -= len(messages)
        if self._open == 0:
            self._run.finish(wall_clock.now_ms())
