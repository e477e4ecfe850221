"""Everything the watch judges, in one place: answers of probes in, incidents out. Pure.

In: what each probe answered, who was seen sending, the wall clock at every step. Out: `Incident`s,
each once open and once closed. Never: I/O, a clock of its own, an opinion from an old answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.alarms import Incident, IncidentKind
from bus.contracts.register import Register
from monitor.ports import ProcessStatus
from monitor.watch.conditions import START_MS, Condition, ConditionTracker
from monitor.watch.curve import CurveBounds, MinuteTotal, QualityCurve
from monitor.watch.missing import MissingJudge, MissingRecords
from monitor.watch.progress import ProgressBounds, StageOffsets, StageProgress
from monitor.watch.silence import SilenceBounds, SilenceJudge
from monitor.watch.watch_clock import WatchClock

STALE_MS = 30_000  # an answer older than this says nothing about now
NOTIFIED_BY = "watch"
EDGE, STREAMS = "edge", "streams"
SUSPENDED = "suspended"  # a process that was stopped by a signal: it lives and does nothing


@dataclass(frozen=True, slots=True)
class WatchBounds:
    """Every bound of the watch, as its settings say."""

    away_ms: int = 30_000
    filling_share: float = 0.9
    filling_ms: int = 30_000
    spool_share: float = 0.5
    progress: ProgressBounds = field(default_factory=ProgressBounds)
    silence: SilenceBounds = field(default_factory=SilenceBounds)
    curve: CurveBounds = field(default_factory=CurveBounds)


@dataclass(frozen=True, slots=True)
class UsedSpace:
    """A disk or a bounded folder: how much of it is used."""

    name: str
    used_bytes: int
    total_bytes: int
    is_spool: bool = False


@dataclass(frozen=True, slots=True)
class StageTopics:
    """One stage of the pipeline: the process that does its work and the topics it reads."""

    stage: str
    role: str
    topics: tuple[str, ...]


@dataclass(slots=True)
class _Answers:
    """The newest conditions of one probe and when they were true."""

    at_ms: int
    conditions: Sequence[Condition]


class WatchJudge:
    """Invariant: `silence` has its own clock, which stands while no record could be seen."""

    def __init__(self, now_ms: int, zone: tzinfo, bounds: WatchBounds) -> None:
        self._bounds = bounds
        self._clock = WatchClock(now_ms)
        self._record_clock = WatchClock(now_ms)
        self._conditions = ConditionTracker(self._clock)
        self.silence = SilenceJudge(self._record_clock, zone, bounds.silence)
        self._answers: dict[str, _Answers] = {}
        self._stages: dict[str, StageProgress] = {}
        self._curves: dict[str, QualityCurve] = {}
        self._missing = MissingJudge(zone)
        self._away: dict[str, bool] = {}
        self._blind = True

    def resume(self, incident: Incident, members: Sequence[tuple[str, str]]) -> None:
        """Go on with an open incident of an earlier process."""
        if incident.kind == "silence":
            self.silence.resume(incident, members)
        else:
            self._conditions.resume(incident)

    def open_incidents(self) -> list[Incident]:
        """All without an end."""
        silences = (one.incident for one in self.silence.open.values())
        return [*self._conditions.open_incidents(), *silences]

    def tick(self, now_ms: int) -> list[Incident]:
        """What has opened and ended by this moment."""
        self._clock.advance(now_ms)
        self._record_clock.advance(now_ms, blind=self._blind)
        changes = []
        for found in self._answers.values():
            if self._clock.seen_ms - found.at_ms <= STALE_MS:
                changes += self._conditions.observe(found.conditions)
        changes += self._conditions.end_unwatched()
        changes += self.silence.judge()
        return [msgspec.structs.replace(one, notified_by=NOTIFIED_BY) for one in changes]

    # -- answers of the probes ----------------------------------------------------------------

    def on_parts(self, probe: str, faults: Mapping[str, str]) -> None:
        """Parts that were asked whether they are there; an empty fault is well."""
        self._away.update({name: bool(fault) for name, fault in faults.items()})
        self._keep(probe, [self._away_condition(name, why) for name, why in faults.items()])

    def on_blindness(self, why: str) -> None:
        """Whether records can be seen now (empty: yes). Not while the edge is away: what it would
        have brought is not the devices' silence."""
        self._blind = bool(why) or self._away.get(EDGE, False)

    def on_processes(self, found: Iterable[ProcessStatus], judged: Iterable[str]) -> None:
        """Processes that have no address to ask, as their supervisor says."""
        conditions = []
        for one in found:
            if one.role not in judged:
                continue
            why = "" if one.state in ("running", SUSPENDED) else one.state
            is_suspended = one.state == SUSPENDED
            self._away[one.role] = bool(why) or is_suspended
            conditions.append(self._away_condition(one.role, why))
            conditions.append(self._standing_condition(one.role, is_suspended))
        self._keep("processes", conditions)

    def on_stage(self, found: StageOffsets) -> None:
        """One stage's positions and the offsets they are compared with."""
        course = self._stages.setdefault(found.stage, StageProgress(self._bounds.progress))
        away = self._away.get(found.role, False) or (found.stage == EDGE and self._blind)
        conditions = course.observe(found, self._clock.seen_ms, is_process_away=away)
        self._keep(f"stage {found.stage}", conditions)

    def on_space(self, found: Iterable[UsedSpace]) -> None:
        """Disks and bounded folders. It ends a twentieth below the bound."""
        self._keep("space", [self._filling_condition(one) for one in found])

    def on_spool(self, spool: UsedSpace) -> None:
        """The edge's spool, of the size it may have."""
        self._keep("spool", [self._filling_condition(spool)])

    def on_minutes(self, totals: Iterable[MinuteTotal]) -> None:
        """Settled minutes of the quality curves; while ingest stands, they say nothing new."""
        if self._conditions.is_open("standing", "ingest") or self._away.get(STREAMS):
            return
        for total in sorted(totals, key=lambda one: one.minute_ms):
            curve = self._curves.setdefault(total.kind, QualityCurve(self._bounds.curve))
            condition = curve.observe(total)
            if condition is not None:
                self._keep(f"curve {total.kind}", [condition])

    def on_missing(self, slots: Iterable[MissingRecords]) -> None:
        """Settled slots of which the bus has fewer records than edges handed to it. What ingest has
        not read yet is not missing: while it stands or is behind, nothing is said."""
        behind = any(self._conditions.is_open(kind, "ingest") for kind in ("standing", "backlog"))
        if not behind and not self._away.get(STREAMS):
            self._keep("missing", self._missing.observe(slots))

    def on_register(self, register: Register) -> None:
        """The deployment register as it is now."""
        self.silence.senders.register = register

    # -- conditions ---------------------------------------------------------------------------

    def _keep(self, probe: str, conditions: Sequence[Condition]) -> None:
        self._conditions.note(conditions)
        self._answers[probe] = _Answers(self._clock.seen_ms, conditions)

    def _away_condition(self, name: str, why: str) -> Condition:
        return Condition(
            "away", name, bool(why), self._bounds.away_ms, {"why": why} if why else {},
            start_ms=START_MS,
        )  # fmt: skip

    def _standing_condition(self, role: str, is_suspended: bool) -> Condition:
        kind: IncidentKind = "standing"
        bound_ms = self._bounds.progress.standing_ms
        return Condition(kind, role, is_suspended, bound_ms, {"why": SUSPENDED})

    def _filling_condition(self, space: UsedSpace) -> Condition:
        bound = self._bounds.spool_share if space.is_spool else self._bounds.filling_share
        share = space.used_bytes / space.total_bytes if space.total_bytes else 0.0
        is_bad = True if share >= bound else False if share < bound * 0.95 else None
        detail = {
            "used_percent": str(round(100 * share)),
            "free_mb": str(max(0, space.total_bytes - space.used_bytes) >> 20),
        }
        return Condition("filling", space.name, is_bad, self._bounds.filling_ms, detail, "warning")


def positions_of(
    topics: Sequence[str], positions: Mapping[TopicAndPartition, int] | None
) -> dict[TopicAndPartition, int] | None:
    """Those of these topics; None where nothing is known of them."""
    if positions is None:
        return None
    found = {tp: offset for tp, offset in positions.items() if tp[0] in topics}
    return found or None
