"""Counts per device and minute, and the incidents of devices and servers that lose records (Q-1
to Q-3).

In: counts, `QualityCell`s, which minutes have settled, the deployment register. Out: cells,
`Incident`s.
Never: a clock, I/O. A gap is what was sent and cannot be used: rejected, or never arrived. A
short gap (a leaf before the lens) heals by itself; one that grows minute after minute means a
failing device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bus.contracts.alarms import Incident
from bus.contracts.meters import QualityCell
from bus.contracts.register import Register
from bus.domain.times import MINUTE_MS
from ingest.store.port import CellKey
from monitor.models.hysteresis import Hysteresis, HysteresisTracker, IncidentChange

SERVER_SHARE = 0.5  # from this share of bad devices on, the server is the fault and not its devices


@dataclass(slots=True)
class CellCounter:
    """Counts of one batch, to be added to what the store holds."""

    cells: dict[CellKey, QualityCell] = field(default_factory=dict)

    def valid(self, key: CellKey, *, partly_read: bool) -> None:
        """One valid record arrived."""
        self._add(key, arrived=1, valid=1, partly_read=int(partly_read))

    def rejected(self, key: CellKey, reason: str) -> None:
        """One record arrived and was not valid."""
        self._add(key, arrived=1, reason=reason)

    def increments(self) -> list[QualityCell]:
        """What was counted, as increments."""
        return list(self.cells.values())

    def _add(
        self, key: CellKey, *, arrived: int = 0, valid: int = 0, partly_read: int = 0,
        reason: str = "",
    ) -> None:  # fmt: skip
        kind, camera_ip, recognizer_ip, minute_ms = key
        old = self.cells.get(key)
        rejected = dict(old.rejected) if old else {}
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
        self.cells[key] = QualityCell(
            kind=kind, camera_ip=camera_ip, recognizer_ip=recognizer_ip, minute_ms=minute_ms,
            sent=0,
            arrived=arrived + (old.arrived if old else 0),
            valid=valid + (old.valid if old else 0),
            partly_read=partly_read + (old.partly_read if old else 0),
            rejected=rejected,
        )  # fmt: skip


Subject = tuple[str, str, str]  # class, "device" or "server", address


@dataclass(slots=True)
class _Gap:
    """One subject in one minute."""

    sent: int = 0
    valid: int = 0
    servers: set[str] = field(default_factory=set)
    rejected: dict[str, int] = field(default_factory=dict)

    def add(self, cell: QualityCell) -> None:
        self.sent += cell.sent
        self.valid += cell.valid
        self.servers.add(cell.recognizer_ip)
        for reason, count in cell.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count

    @property
    def share(self) -> float:
        return max(0, self.sent - self.valid) / self.sent if self.sent else 0.0


@dataclass(slots=True)
class GapIncidents:
    """Names the device or the server behind a lasting gap, once when it opens and once when it
    closes.

    The caller says up to where minutes have settled (`PublishedMinutes`), so that records under way
    are no gap. Every slot at or above the opening level adds to the loss: a run of them is a gap
    that lasts and grows.
    """

    rule: Hysteresis
    register: Register
    min_sent: int = 3  # fewer records in a minute say nothing
    tracker: HysteresisTracker[Subject] = field(init=False)
    judged_until_ms: int = 0

    def __post_init__(self) -> None:
        self.tracker = HysteresisTracker(self.rule)

    def resume(self, incident: Incident) -> None:
        """Go on with an open incident of an earlier process."""
        address = incident.camera_ip or incident.recognizer_ip
        scope = "device" if incident.camera_ip else "server"
        subject = (incident.detail.get("class", ""), scope, address)
        self.tracker.resume(subject, incident.opened_at_ms)

    def judge(self, cells: Sequence[QualityCell], until_ms: int) -> list[Incident]:
        """Judge every minute up to there (exclusive) not judged yet, given (at least) its cells."""
        minutes: dict[int, list[QualityCell]] = defaultdict(list)
        for cell in cells:
            if self.judged_until_ms <= cell.minute_ms < until_ms:
                minutes[cell.minute_ms].append(cell)
        incidents = [i for m in sorted(minutes) for i in self._judge_minute(m, minutes[m])]
        self.judged_until_ms = max(self.judged_until_ms, until_ms)
        self.tracker.forget_before(until_ms - 60 * MINUTE_MS)
        return incidents

    def _judge_minute(self, minute_ms: int, cells: Iterable[QualityCell]) -> list[Incident]:
        gaps = _devices(cells, self.min_sent)
        servers = _servers(gaps, self.rule.open_level)
        excused = {(s[0], s[2]) for s, gap in servers.items() if gap.share >= self.rule.open_level}
        incidents = []
        for subject, gap in sorted((gaps | servers).items(), key=lambda item: item[0]):
            behind_bad_server = any((subject[0], server) in excused for server in gap.servers)
            if subject[1] == "device" and behind_bad_server:
                continue
            change = self.tracker.observe(subject, minute_ms, gap.share)
            if change:
                incidents.append(self._incident(change, gap))
        return incidents

    def _incident(self, change: IncidentChange[Subject], gap: _Gap) -> Incident:
        kind, scope, address = change.subject
        camera_ip = address if scope == "device" else ""
        device = self.register.device_by_ip.get(camera_ip)
        checkpoint_id = device.checkpoint_id if device else ""
        server = address if scope == "server" else next(iter(sorted(gap.servers)), "")
        return Incident(
            incident_id=f"quality:{kind}:{scope}:{address}:{change.opened_at_ms}",
            kind="quality",
            state="open" if change.opened else "closed",
            opened_at_ms=change.opened_at_ms,
            closed_at_ms=0 if change.opened else change.at_ms + MINUTE_MS,
            camera_ip=camera_ip,
            recognizer_ip=server,
            checkpoint_id=checkpoint_id,
            district_id=self.register.district_of(checkpoint_id),
            detail=_detail(kind, scope, gap) | self._place(checkpoint_id),
        )

    def _place(self, checkpoint_id: str) -> dict[str, str]:
        checkpoint = self.register.checkpoint_by_id.get(checkpoint_id)
        return {"place": checkpoint.name, "place_en": checkpoint.name_en} if checkpoint else {}


def _detail(kind: str, scope: str, gap: _Gap) -> dict[str, str]:
    counts = {"class": kind, "scope": scope, "sent": str(gap.sent), "valid": str(gap.valid)}
    return counts | {f"rejected:{reason}": str(n) for reason, n in sorted(gap.rejected.items())}


def _devices(cells: Iterable[QualityCell], min_sent: int) -> dict[Subject, _Gap]:
    gaps: dict[Subject, _Gap] = defaultdict(_Gap)
    for cell in cells:
        gaps[cell.kind, "device", cell.camera_ip].add(cell)
    return {subject: gap for subject, gap in gaps.items() if gap.sent >= min_sent}


def _servers(devices: dict[Subject, _Gap], open_level: float) -> dict[Subject, _Gap]:
    """The servers with several devices. A server's gap counts only if enough of its devices have
    one.
    """
    behind: dict[Subject, list[_Gap]] = defaultdict(list)
    for (kind, _, _), gap in devices.items():
        for server in gap.servers - {""}:
            behind[kind, "server", server].append(gap)
    return {s: _joined(s[2], gaps, open_level) for s, gaps in behind.items() if len(gaps) > 1}


def _joined(server: str, gaps: list[_Gap], open_level: float) -> _Gap:
    whole = _Gap(servers={server})
    bad = sum(gap.share >= open_level for gap in gaps)
    for gap in gaps:
        whole.sent += gap.sent
        whole.valid += gap.valid if bad >= SERVER_SHARE * len(gaps) else gap.sent
        for reason, count in gap.rejected.items():
            whole.rejected[reason] = whole.rejected.get(reason, 0) + count
    return whole
