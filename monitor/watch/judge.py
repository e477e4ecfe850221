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
from bus.contracts.alarms import BY_WATCH, Incident, IncidentKind
from bus.contracts.mirror_status import MirrorReport
from bus.contracts.plate_lists import ListRecord
from bus.contracts.register import Register
from bus.contracts.sender_faults import RefusedGroup
from monitor.ports import ProcessStatus
from monitor.watch.conditions import START_MS, Condition, ConditionTracker
from monitor.watch.confirmation import SiteKeysOfBus, confirmation_condition
from monitor.watch.curve import CurveBounds, MinuteTotal, QualityCurve
from monitor.watch.driver_faults import one_per_driver
from monitor.watch.driver_pages import DriverPages, StageTopics
from monitor.watch.ending_certificates import CertificateEnd, ending
from monitor.watch.losses import LossJudge
from monitor.watch.mirror import MirrorJudge
from monitor.watch.missing import MissingJudge, MissingRecords
from monitor.watch.overdue_lists import OverdueJudge
from monitor.watch.progress import ProgressBounds, StageOffsets, StageProgress
from monitor.watch.refused import RefusedJudge
from monitor.watch.silence import SilenceBounds, SilenceJudge
from monitor.watch.watch_clock import WatchClock

STALE_MS = 30_000  # an answer older than this says nothing about now
EDGE, INGEST = "edge", "ingest"
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


@dataclass(slots=True)
class _Answers:
    """The newest conditions of one probe and when they were true."""

    at_ms: int
    conditions: Sequence[Condition]


class WatchJudge:
    """Invariant: `silence` has its own clock, which stands while no record could be seen."""

    def __init__(
        self, now_ms: int, zone: tzinfo, bounds: WatchBounds, stages: Sequence[StageTopics] = ()
    ) -> None:
        self._bounds = bounds
        self._roles = {one.stage: one.roles for one in stages}
        self._pages = DriverPages.of(stages, STALE_MS)
        self._supervised: set[str] | None = None  # processes that a supervisor speaks for
        self._clock = WatchClock(now_ms)
        self._record_clock = WatchClock(now_ms)
        self._conditions = ConditionTracker(self._clock)
        self.silence = SilenceJudge(self._record_clock, zone, bounds.silence)
        self._answers: dict[str, _Answers] = {}
        self._stages: dict[str, StageProgress] = {}
        self._curves: dict[str, QualityCurve] = {}
        self._missing = MissingJudge(zone)
        self._mirror = MirrorJudge()
        self._losses = LossJudge(stages)
        self._pids: dict[str, int | None] = {}
        self._refused = RefusedJudge()
        self._overdue = OverdueJudge(zone)
        self._away: dict[str, bool] = {}
        self._blind = True

    def resume(self, incident: Incident, members: Sequence[tuple[str, str]]) -> None:
        """Go on with an open incident of an earlier process."""
        if incident.kind == "silence":
            self.silence.resume(incident, members)
        else:
            self._conditions.resume(incident)

    @property
    def pages(self) -> set[str]:
        """The processes whose pages of metrics say whether they are there."""
        return self._pages.names

    def open_incidents(self) -> list[Incident]:
        """All without an end."""
        silences = (one.incident for one in self.silence.open.values())
        return [*self._conditions.open_incidents(), *silences]

    def tick(self, now_ms: int) -> list[Incident]:
        """What has opened and ended by this moment."""
        self._clock.advance(now_ms)
        self._record_clock.advance(now_ms, blind=self._blind)
        changes = []
        fresh = [
            condition
            for found in self._answers.values()
            if self._clock.seen_ms - found.at_ms <= STALE_MS
            for condition in found.conditions
        ]
        drivers = {stage: self._driver_of(stage) for stage in self._roles}
        changes += self._conditions.observe(
            one_per_driver(fresh, drivers, self._conditions.is_open)
        )
        changes += self._conditions.end_unwatched()
        changes += self.silence.judge()
        return [msgspec.structs.replace(one, notified_by=BY_WATCH) for one in changes]

    # -- answers of the probes ----------------------------------------------------------------

    def on_parts(self, probe: str, faults: Mapping[str, str]) -> None:
        """Parts that were asked whether they are there; an empty fault is well."""
        for name, fault in faults.items():
            if self._away.get(name) and not fault:
                self._process_started(name)
            self._away[name] = bool(fault)
        self._keep(probe, [self._away_condition(name, why) for name, why in faults.items()])

    def on_blindness(self, why: str) -> None:
        """Whether records can be seen now (empty: yes). Not while the edge is away: what it would
        have brought is not the devices' silence."""
        self._blind = bool(why) or any(
            is_away for name, is_away in self._away.items() if is_edge(name)
        )

    def on_processes(self, found: Iterable[ProcessStatus]) -> None:
        """The processes of the stages, as their supervisor says; none where there is none."""
        conditions = []
        known = [one for one in found if one.role in self._pages.names]
        self._supervised = {one.role for one in known}
        for one in known:
            why = "" if one.state in ("running", SUSPENDED) else one.state
            is_suspended = one.state == SUSPENDED
            is_back = self._away.get(one.role, False) and not why and not is_suspended
            if is_back or self._pids.get(one.role, one.pid) != one.pid:
                self._process_started(one.role)
            self._pids[one.role] = one.pid
            self._away[one.role] = bool(why) or is_suspended
            conditions.append(self._away_condition(one.role, why))
            conditions.append(self._standing_condition(one.role, is_suspended))
        self._keep("processes", conditions)

    def on_page(self, name: str, fault: str) -> None:
        """The page of metrics of a driver or a dispatcher; it counts where nobody supervises."""
        self._pages.answered(name, fault, self._clock.seen_ms)
        if self._supervised is not None:
            self.on_parts("pages", self._pages.faults(self._supervised, self._clock.seen_ms))

    def on_stage(self, found: StageOffsets) -> None:
        """One stage's positions and the offsets they are compared with."""
        course = self._stages.setdefault(found.stage, StageProgress(self._bounds.progress))
        away = self._is_away(found.stage) or (is_edge(found.stage) and self._blind)
        conditions = course.observe(found, self._clock.seen_ms, is_process_away=away)
        self._keep(f"stage {found.stage}", conditions)
        lost = self._losses.observe(found.stage, course.loss)
        self._keep(f"lost {lost.subject}", [lost])

    def on_space(self, found: Iterable[UsedSpace]) -> None:
        """Disks and bounded folders. It ends a twentieth below the bound."""
        self._keep("space", [self._filling_condition(one) for one in found])

    def on_spool(self, spool: UsedSpace) -> None:
        """An edge's spool, of the size it may have."""
        self._keep(spool.name, [self._filling_condition(spool)])

    def on_uncovered(self, edge: str, records: int) -> None:
        """What an edge had to delete before the other site was known to have it: the RPO is not 0
        through this edge. At once, since at A's death it would be lost."""
        detail = {"records": str(records), "rpo": f"≠ 0 ({edge})"}
        self._keep(f"uncovered {edge}", [Condition("uncovered", edge, records > 0, 0, detail)])

    def on_refused(self, edge: str, groups: Sequence[RefusedGroup]) -> None:
        """What an edge says of requests that it refuses; edges that say the same are one."""
        self._keep("refused", self._refused.observe(edge, groups, self._clock.seen_ms))

    def on_lists(self, lists: Sequence[ListRecord]) -> None:
        """The lists of plates in force: which of them were not renewed in time."""
        self._keep("lists", self._overdue.observe(lists, self._clock.now_ms))

    def on_certificates(self, certificates: Sequence[CertificateEnd]) -> None:
        """Those of the bus: which of them end soon."""
        self._keep("certificates", ending(certificates, self._clock.now_ms))

    def on_minutes(self, totals: Iterable[MinuteTotal]) -> None:
        """Settled minutes of the quality curves; while ingest stands, they say nothing new."""
        if self._stands(INGEST) or self._is_away(INGEST):
            return
        for total in sorted(totals, key=lambda one: one.minute_ms):
            curve = self._curves.setdefault(total.kind, QualityCurve(self._bounds.curve))
            condition = curve.observe(total)
            if condition is not None:
                self._keep(f"curve {total.kind}", [condition])

    def on_missing(self, slots: Iterable[MissingRecords]) -> None:
        """Settled slots of which the bus has fewer records than edges handed to it. What ingest has
        not read yet is not missing: while it stands or is behind, nothing is said."""
        behind = self._stands(INGEST) or self._conditions.is_open("backlog", INGEST)
        if not behind and not self._is_away(INGEST):
            self._keep("missing", self._missing.observe(slots))

    def on_mirror(self, found: MirrorReport | None) -> None:
        """What the mirror says of the second site; None while it knows nothing yet."""
        self._keep("mirror", self._mirror.observe(found))

    def on_site_keys(self, found: SiteKeysOfBus) -> None:
        """Whether this site waits to be confirmed as the primary."""
        self._keep("site keys", [confirmation_condition(found)])

    def on_register(self, register: Register) -> None:
        """The deployment register as it is now."""
        self.silence.senders.register = register

    # -- conditions ---------------------------------------------------------------------------

    def _is_away(self, stage: str) -> bool:
        """Whether the process is away that does the work of a stage; an edge is its own stage."""
        return any(self._away.get(role, False) for role in self._roles.get(stage, (stage,)))

    def _driver_of(self, stage: str) -> str:
        """Its process, as far as it is known: all stages have one, or each has its own."""
        roles = self._roles[stage]
        return next((role for role in roles if role in self._away), roles[0])

    def _stands(self, stage: str) -> bool:
        """Whether an incident says so, of the stage or of another one of its driver."""
        driver = self._driver_of(stage) if stage in self._roles else stage
        others = [one for one in self._roles if self._driver_of(one) == driver]
        return any(self._conditions.is_open("standing", one) for one in (stage, driver, *others))

    def _process_started(self, role: str) -> None:
        for stage, course in self._stages.items():
            if role in self._roles.get(stage, (stage,)):
                course.process_started(self._clock.seen_ms)

    def _keep(self, probe: str, conditions: Sequence[Condition]) -> None:
        self._conditions.note(conditions)
        self._answers[probe] = _Answers(self._clock.seen_ms, conditions)

    def _away_condition(self, name: str, why: str) -> Condition:
        stages = " ".join(stage for stage in self._roles if self._driver_of(stage) == name)
        detail = {"why": why, **({"stages": stages} if stages else {})} if why else {}
        return Condition(
            "away", name, bool(why), self._bounds.away_ms, detail, start_ms=START_MS
        )

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
    """Those of these topics; None where nothing is known of them. Where none is valid any more,
    nothing of the topics was read."""
    if positions is None:
        return None
    found = {tp: offset for tp, offset in positions.items() if tp[0] in topics}
    return found if found or not positions else None


def is_edge(name: str) -> bool:
    """`edge`, or one of several: `edge-2`."""
    return name == EDGE or name.startswith(f"{EDGE}-")
