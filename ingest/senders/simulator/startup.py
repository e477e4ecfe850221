"""What the city does before its first record: puts its rules on the watch list and publishes
counters that a killed run never sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bus.client.kafka.command_client import (
    CommandClient,
    CommandNotAcknowledged,
    CommandUnanswered,
)
from bus.client.kafka.send_all import send_all
from bus.contracts.commands import Command, CommandAnswer
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.meters import Sent
from bus.contracts.topics import STATE_LISTS, TOPICS
from bus.errors import BusError
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings
from ingest.senders.simulator.bus_uplink import BusUplink
from ingest.senders.simulator.ground_truth import truth_files
from ingest.senders.simulator.listed_car import ListedCarsRule
from ingest.senders.simulator.recovery import UnfinishedRun, unfinished_runs
from ingest.senders.simulator.wanted_faces import WantedFacesRule
from ingest.senders.simulator.watched_cars import CityRule

log = logging.getLogger(__name__)

ANSWER_S = 2.0  # so long a stop may wait
PAUSE_S = 0.5  # the topics may not have been made yet


async def put_watch_rules(
    site: SiteSettings,
    bus: BusSettings,
    rules: Sequence[CityRule],
    stopping: asyncio.Event,
) -> None:
    """Returns when the rules are in force: a record sent afterwards must meet them."""
    client = CommandClient(bus, site.name, "city-commands")
    try:
        for rule in rules:
            if isinstance(rule, ListedCarsRule | WantedFacesRule):
                await _send_chunks(bus, site, rule, stopping)
            await _put(client, rule, stopping)
    finally:
        await asyncio.to_thread(client.close)


async def _send_chunks(
    bus: BusSettings, site: SiteSettings, rule: ListedCarsRule | WantedFacesRule,
    stopping: asyncio.Event,
) -> None:  # fmt: skip
    """Acknowledged before its command: the decider takes a list whose chunks it knows."""
    headers = ((SCHEMA, TOPICS[STATE_LISTS].schema), (SITE, site.name))
    send = partial(
        send_all, bus, "city-lists", STATE_LISTS, list(rule.chunks()), headers=headers,
        timeout_s=ANSWER_S, what="chunks of a list",
    )  # fmt: skip
    while not stopping.is_set():
        try:
            await asyncio.to_thread(send)
            return
        except BusError as error:
            log.warning("list %s: %s; again", rule.list_id, error)
        await asyncio.sleep(PAUSE_S)


def send_owed_counters(bus: BusUplink, directory: Path, this_run: str) -> None:
    """Publish the counters that killed runs never sent, then write their end markers."""
    earlier = [path for path in truth_files(directory) if this_run not in path.name]
    for run in unfinished_runs(earlier):
        log.info("%s has no end; sending its %d counters", run.path.name, len(run.counters))
        bus.send_counters(run.counters, _OwedCounters(run).on_acknowledged)


async def _put(
    client: CommandClient, rule: CityRule, stopping: asyncio.Event
) -> None:
    """A command that was refused is another one the next time: what refused it may be over."""
    command = rule.command(wall_clock.now_ms())
    while not stopping.is_set():
        answer = await asyncio.to_thread(_answer, client, command)
        if answer is not None and answer.state == "accepted":
            return
        if answer is not None and answer.state == "proposed":
            log.error(
                "the rule %s waits for an approval; a city by itself needs --set "
                "policy.requires_approval=false: no alarm is raised by this rule yet",
                command.key,
            )
            return
        if answer is not None:
            log.warning("watch command %s: %s; again", command.key, answer.text)
            command = rule.command(wall_clock.now_ms())
        await asyncio.sleep(PAUSE_S)


def _answer(client: CommandClient, command: Command) -> CommandAnswer | None:
    try:
        return client.request(command, ANSWER_S)
    except (CommandNotAcknowledged, CommandUnanswered) as error:
        log.warning("watch command %s: %s; again", command.key, error)
        return None


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
