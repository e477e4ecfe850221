"""Waits until the pipeline is drained: edge → topics → store, candidates → alarms.

In: settings of a running product whose senders have stopped. Out: True when everything has arrived,
False when nothing more arrives, or at the bound. Never: stopping or starting anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from contextlib import closing

import msgspec

from bus.contracts.groups import DISPATCHER, application_group
from bus.contracts.topics import (
    DATA_TOPICS,
    DATA_VIDEO_SEGMENT,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_SUPPRESSED,
    METER_ARRIVED,
    METER_LATENCY,
    METER_QUALITY,
    METER_SENT,
    QUARANTINE_RECORDS,
)
from deploy.errors import OperatorError
from deploy.open_stores import open_operations, open_records
from deploy.reconcile import topic_totals
from deploy.reconcile.edge_status import edge_backlog
from deploy.roles.stages import INGEST, STAGES, stages_of
from deploy.roles.table import ALARM_STREAMS, STREAMS
from deploy.settings.composed import Settings
from ingest.store.port import StoreError

POLL_S = 0.4
MOST_IDLE_PERIODS = 5
RECORDER = "recorder"
METERS = (METER_SENT, METER_ARRIVED, METER_QUALITY, METER_LATENCY)
TOPICS = (
    *DATA_TOPICS, DATA_VIDEO_SEGMENT, QUARANTINE_RECORDS, *METERS, EVENT_CANDIDATE, EVENT_ALARM,
    EVENT_SUPPRESSED,
)  # fmt: skip


class PendingWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is still on its way, by stage; None where there was no answer."""

    by_stage: dict[str, int | None]

    @property
    def is_empty(self) -> bool:
        """Whether all has arrived."""
        return all(count == 0 for count in self.by_stage.values())

    @property
    def known(self) -> int | None:
        """How much it is; None where a stage has not answered."""
        counts = list(self.by_stage.values())
        return None if None in counts else sum(count or 0 for count in counts)

    def __str__(self) -> str:
        left = [
            f"{place} {'?' if n is None else n}" for place, n in self.by_stage.items() if n != 0
        ]
        return ", ".join(left) or "nothing"


class PendingLimit:
    """Until when it is waited: for `idle_s` since less was left than ever before, and never for
    more than MOST_IDLE_PERIODS times that.

    A slow machine has minutes of work left when the senders stop; a stage that stands still must
    not be waited for as long as that takes.
    """

    def __init__(self, now_s: float, idle_s: float) -> None:
        self._idle_s, self._last_s = idle_s, now_s + MOST_IDLE_PERIODS * idle_s
        self._least: int | None = None
        self.end_s = now_s + idle_s

    def on_pending(self, now_s: float, count: int | None) -> None:
        """So many records are left; None: nobody knows."""
        if count is not None and (self._least is None or count < self._least):
            self._least = count
            self.end_s = min(now_s + self._idle_s, self._last_s)


async def drain(
    settings: Settings, idle_s: float, report: Callable[[str], None], skip: asyncio.Event
) -> bool:
    """Poll until nothing is left, twice in a row (a record may be between two stages), until
    nothing more arrives for `idle_s`, or until `skip` is set."""
    begun_s, quiet = time.monotonic(), 0
    limit = PendingLimit(begun_s, idle_s)
    pending = PendingWork(by_stage={})
    while time.monotonic() < limit.end_s and not skip.is_set():
        pending = await asyncio.to_thread(pending_work, settings)
        quiet = quiet + 1 if pending.is_empty else 0
        if quiet == 2:
            return True
        limit.on_pending(time.monotonic(), pending.known)
        report(f"draining: {pending}")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(skip.wait(), POLL_S)
    passed = "" if skip.is_set() else f" within {time.monotonic() - begun_s:.0f} s"
    report(f"not drained{passed}: {pending}")
    return False


def pending_work(settings: Settings) -> PendingWork:
    """Query every stage once."""
    by_stage: dict[str, int | None] = {"edge": edge_backlog(settings)}
    try:
        bus = topic_totals.read_topic_totals(settings.bus, TOPICS)
        with closing(open_records(settings)) as reader:
            for one in STAGES:
                by_stage[one.stage] = (
                    bus.behind(one.stage, reader.positions(one.stage), one.topics)
                    if one.stage == INGEST
                    else bus.behind_group(application_group(one.stage), one.topics)
                )
        by_stage[DISPATCHER] = bus.behind_group(DISPATCHER, [EVENT_CANDIDATE])
    except (OperatorError, StoreError):
        return PendingWork(by_stage={**by_stage, "bus or store": None})
    by_stage[RECORDER] = recorder_backlog(settings, bus)
    return PendingWork(by_stage=by_stage)


def stages_of_roles(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The stages whose work each role does."""
    stages = stages_of(settings.streams)
    drivers = {
        role: tuple(one.stage for one in stages if one.role == role)
        for role in (STREAMS, ALARM_STREAMS)
    }
    others = {"edge": ("edge",), DISPATCHER: (DISPATCHER, RECORDER)}
    return others | {role: found for role, found in drivers.items() if found}


def behind_by_role(settings: Settings, roles: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """How many records wait for each of these roles, by stage; None where it is unknown."""
    by_stage, stages = pending_work(settings).by_stage, stages_of_roles(settings)
    return {role: {place: by_stage.get(place) for place in stages.get(role, ())} for role in roles}


def recorder_backlog(settings: Settings, bus: topic_totals.TopicTotals) -> int | None:
    """Alarms, and what they stand for, that are not in the operations store yet."""
    try:
        with closing(open_operations(settings)) as reader:
            positions = list(reader.positions(RECORDER))
    except StoreError:
        return None
    return bus.behind(RECORDER, positions, [EVENT_ALARM, EVENT_SUPPRESSED])
