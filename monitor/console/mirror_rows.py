"""What the page of the mirror shows: tiles, rows, curves. Pure.

In: a `MirrorReport`, the time. Out: texts and rows in one language. Never: a number in place of
what is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bus.contracts.mirror_status import (
    MirrorReport,
    MirrorStatus,
    PartitionStatus,
    PictureStatus,
    StateRemedy,
    TopicProof,
    TopicStatus,
)
from monitor.api.views import clock
from monitor.console.rows import Row
from monitor.i18n import Texts
from monitor.models.diverged_ids import DivergedIds

WELL = ("copying", "loop")
"""States of topics that need nobody."""
STARTING = "starting"
OLD_MS = 10_000
"""The mirror reports every second."""
RPO_WARNING_S, RPO_CRITICAL_S = 10.0, 60.0
DRILL_RECENT_MS = 92 * 86_400_000
"""A quarter of a year; an older drill says little of today's sites."""
SECOND_CHARACTERS = 19
"""`2026-11-21 08:03:01`."""
_UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure on top: its text and `good`, `warning`, `critical` or nothing."""

    text: str
    state: str = ""


def tiles(report: MirrorReport, t: Texts, zone: ZoneInfo, now_ms: int) -> dict[str, Tile]:
    """By key, in the order of the page."""
    status, proof = report.status, report.status.proof
    unwell = unwell_places(report)
    state = Tile(t("mirror.well"), "good")
    if unwell:
        state = Tile(t("mirror.unwell", count=len(unwell)), "critical")
    elif proof.differences:
        state = Tile(t("mirror.differs"), "critical")
    if status.unreachable or is_old(report, now_ms):
        state = Tile(t("mirror.no_answer"), "critical")
    lags = [one.lag_records for one in status.partitions]
    is_known = all(lag >= 0 for lag in lags)
    complete = min((one.complete_to_ms for one in proof.topics), default=-1)
    return {
        "state": state,
        "rpo": Tile(duration(status.rpo_s, t), _rpo_state(status.rpo_s)),
        "rpo_edges": _rpo_through_edges(status, t),
        "rto": _rto(status, t, now_ms),
        "lag_records": Tile(f"{sum(lags):,}" if is_known else t("mirror.unknown")),
        "lag_bytes": Tile(size(sum(one.lag_bytes for one in status.partitions))),
        "complete_to": Tile(
            moment(complete, t, zone)[-8:] if complete > 0 else t("mirror.unknown"),
            "good" if complete > 0 else "warning",
        ),
        "differences": Tile(
            str(len(proof.differences)), "critical" if proof.differences else "good"
        ),
        "pictures": _pictures(status.pictures, t),
    }


def unwell_places(report: MirrorReport) -> list[str]:
    """Topics, and partitions of copied topics, that are in a state that needs somebody."""
    status = report.status
    partitions = [f"{p.topic}-{p.partition}" for p in status.partitions if _needs(p.state)]
    copied = {one.topic for one in status.partitions}
    topics = [o.topic for o in status.topics if o.topic not in copied and _needs(o.state)]
    return sorted([*topics, *partitions])


def _needs(state: str) -> bool:
    return state not in (*WELL, STARTING)


def is_old(report: MirrorReport, now_ms: int) -> bool:
    """Whether the mirror has said nothing new for so long that it stands still."""
    return now_ms - report.status.at_ms > OLD_MS


def topic_rows(report: MirrorReport, t: Texts, zone: ZoneInfo) -> list[Row]:
    """One a topic, those that need somebody first."""
    proofs = {one.topic: one for one in report.status.proof.topics}
    parts: dict[str, list[PartitionStatus]] = {}
    for one in report.status.partitions:
        parts.setdefault(one.topic, []).append(one)
    rows = [
        _topic_row(topic, parts.get(topic.topic, []), proofs.get(topic.topic), t, zone)
        for topic in report.status.topics
    ]
    return sorted(rows, key=lambda row: (row["is_well"], row["id"]))


def _topic_row(
    topic: TopicStatus,
    parts: list[PartitionStatus],
    proof: TopicProof | None,
    t: Texts,
    zone: ZoneInfo,
) -> Row:
    worst = next((one for one in parts if _needs(one.state)), None)
    first = parts[0].state if parts else topic.state
    state = worst.state if worst else topic.state if _needs(topic.state) else first
    if not _needs(state) and proof is not None and proof.differences:
        state = "differs"
    lags, seconds = [one.lag_records for one in parts], [one.lag_s for one in parts]
    unknown = t("mirror.unknown")
    row: Row = {
        "id": topic.topic,
        "state": t.word("mirror_state", state),
        "is_well": not _needs(state),
        "partitions": len(parts),
        "lag_records": "",
        "lag_bytes": "",
        "lag_s": "",
        "missing": "",
        "detail": worst.detail if worst else topic.detail,
    }
    if parts:
        missing = sum(one.missing for one in parts)
        row |= {
            "lag_records": f"{sum(lags):,}" if min(lags) >= 0 else unknown,
            "lag_bytes": size(sum(one.lag_bytes for one in parts)),
            "lag_s": duration(max(seconds) if min(seconds) >= 0 else -1, t),
            "missing": f"{missing:,}" if missing else "",
        }
    return row | _proof_cells(row["detail"], proof, t, zone)


def _proof_cells(detail: str, proof: TopicProof | None, t: Texts, zone: ZoneInfo) -> Row:
    if proof is None:
        return {"complete_to": "", "blocks": "", "oldest": ""}
    return {
        "complete_to": moment(proof.complete_to_ms, t, zone),
        "blocks": f"{proof.blocks:,} / {proof.blocks + proof.unproven_blocks:,}",
        "oldest": duration(proof.oldest_s, t) if proof.oldest_s >= 0 else "",
        "detail": "; ".join(filter(None, (detail, *proof.failures))),
    }


def difference_rows(report: MirrorReport, t: Texts, zone: ZoneInfo) -> list[Row]:
    """What differs: where, since when, which offsets."""
    return [
        {
            "id": f"{one.topic}-{one.partition}@{one.broker}:{one.first_offset}",
            "partition": f"{one.topic}-{one.partition}",
            "broker": one.broker,
            "directory": one.directory or t("mirror.some_directory"),
            "offsets": f"{one.first_offset:,}–{one.end_offset - 1:,}",
            "since": moment(one.found_ms, t, zone),
            "detail": one.detail,
        }
        for one in report.status.proof.differences
    ]


def remedies(report: MirrorReport) -> list[tuple[StateRemedy, list[str]]]:
    """What to do, with the topics and partitions that it is for."""
    places: dict[str, list[str]] = {}
    for one in report.status.topics:
        places.setdefault(one.state, []).append(one.topic)
    for part in report.status.partitions:
        places.setdefault(part.state, []).append(f"{part.topic}-{part.partition}")
    for found in report.status.proof.differences:
        place = f"{found.topic}-{found.partition}"
        if place not in places.setdefault("differs", []):
            places["differs"].append(place)
    return [(one, places.get(one.state, [])) for one in report.states if one.state != "loop"]


def curves(report: MirrorReport) -> dict[str, list[list[float | None]]]:
    """Of the last hour; what was not known is a gap."""
    return {
        "records": [[p.at_ms, _or_gap(p.lag_records)] for p in report.curve],
        "rpo": [[p.at_ms, _or_gap(p.rpo_s)] for p in report.curve],
    }


def _or_gap(value: float) -> float | None:
    return None if value < 0 else value


def duration(seconds: float, t: Texts) -> str:
    """`0.4 s`, `12 s`, `35 min`, `20 h`; below 0: not known."""
    if seconds < 0:
        return t("mirror.unknown")
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds else "0 s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{seconds / 3600:.0f} h"


def size(size_bytes: float) -> str:
    """`0 B`, `1.2 MB`."""
    value, units = float(size_bytes), iter(_UNITS)
    unit = next(units)
    for larger in units:
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def moment(time_ms: int, t: Texts, zone: ZoneInfo) -> str:
    """To the second; not known where it is not."""
    return clock(time_ms, zone)[:SECOND_CHARACTERS] if time_ms > 0 else t("mirror.unknown")


def listed(places: Iterable[str], most: int = 8) -> str:
    """The first ones, and that there are more."""
    names = list(places)
    more = f" … (+{len(names) - most})" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _rto(status: MirrorStatus, t: Texts, now_ms: int) -> Tile:
    if status.rto_s < 0:
        return Tile(t("mirror.no_drill"), "warning")
    is_recent = now_ms - status.drilled_ms <= DRILL_RECENT_MS
    return Tile(duration(status.rto_s, t), "good" if is_recent else "warning")


def _rpo_through_edges(status: MirrorStatus, t: Texts) -> Tile:
    if not status.edges:
        return Tile(t("mirror.no_edges"))
    rpo_s = status.rpo_through_edges_s
    return Tile(duration(rpo_s, t), _rpo_state(rpo_s))


def edge_facts(report: MirrorReport, t: Texts) -> list[tuple[str, str]]:
    """An edge and what it says."""
    return [
        (
            one.url,
            one.problem
            or t("mirror.edge", kept=f"{one.kept_records:,}", lost=f"{one.uncovered_records:,}"),
        )
        for one in report.status.edges
    ]


def diverged_id_facts(diverged: DivergedIds, t: Texts) -> list[tuple[str, str]]:
    """How many records only this site had, by site epoch; nothing where it never came back."""
    rows = [
        (t("mirror.own_tail_epoch", epoch=epoch), t("mirror.own_tail_records", count=f"{count:,}"))
        for epoch, count in diverged.counts().items()
    ]
    if diverged.not_held:
        too_many = t("mirror.own_tails_too_many", count=f"{diverged.not_held:,}")
        rows.append((t("mirror.own_tails_not_held"), too_many))
    return rows


def _pictures(found: PictureStatus, t: Texts) -> Tile:
    if found.policy == "none":
        return Tile(t("mirror.pictures_none"))
    if found.problem or found.differing or found.other:
        return Tile(t("mirror.pictures_wrong"), "critical")
    behind = found.waiting or found.unread_records
    waiting = t("mirror.pictures_waiting", count=f"{found.waiting:,}")
    return Tile(waiting, "warning" if behind else "good")


def picture_facts(report: MirrorReport, t: Texts, zone: ZoneInfo) -> list[tuple[str, str]]:
    """What is copied of pictures, and what is wrong with them; nothing where none are."""
    found = report.status.pictures
    if found.policy == "none":
        return []
    rows = [
        ("policy", t(f"mirror.pictures_{found.policy}")),
        ("copied", f"{found.copied:,} · {size(found.copied_bytes)}"),
        ("waiting", f"{found.waiting:,}"),
        ("oldest", moment(found.oldest_ms, t, zone) if found.waiting else ""),
        ("compared", f"{found.compared:,}"),
        ("oldest_compared", moment(found.oldest_compared_ms, t, zone) if found.compared else ""),
        ("given_up", f"{found.given_up:,}" if found.given_up else ""),
        ("differing", listed((*found.differing, *found.other))),
        ("problem", found.problem),
    ]
    return [(t(f"mirror.pictures.{key}"), text) for key, text in rows if text]


def _rpo_state(rpo_s: float) -> str:
    if rpo_s < 0 or rpo_s >= RPO_CRITICAL_S:
        return "critical"
    return "warning" if rpo_s >= RPO_WARNING_S else "good"
