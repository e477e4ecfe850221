"""The account over two sites: what cameras were told, against what each site's store has. Pure.

In: record ids from every source. Out: a `SitesReconciliation` with all that does not add up. Never:
I/O; a loss called zero because nothing was heard of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

import msgspec

SHOWN_IDS = 5
HEARD_WITHIN_MS = 5_000
"""So long before its death the lost site was heard last, at most: every partition is asked for
records all the time, and an idle one answers twice a second."""

Via = Literal["edge", "bus"]


class OwnRecord(NamedTuple):
    """One record in a log of the lost site."""

    offset: int
    record_id: str


class DivergedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition after a forced switch. Of the mirror's report: where it ended at B (`end`), the
    last end that was heard of A (`heard_end`, at `heard_ms`; -1: never), and how many offsets it
    knows to be missing. `records`: what A's disks hold from `end` on, counted apart from it."""

    topic: str
    partition: int
    end: int
    heard_end: int
    heard_ms: int
    known_missing: int
    records: Sequence[OwnRecord]

    @property
    def name(self) -> str:
        """As it stands in texts."""
        return f"{self.topic}-{self.partition}"

    def reported(self) -> list[OwnRecord]:
        """Those that the report must know of."""
        return [one for one in self.records if one.offset < self.heard_end]


class SiteRecords(msgspec.Struct, frozen=True, kw_only=True):
    """`acknowledged`: ids that a receiver acknowledged to the city, by the way they came;
    `at_a`, `at_b`: ids in the stores, or among what they rejected. `folded`: acknowledged records
    whose ids are not known any more, compared in number only. `known_missing`, `sent_again`: of the
    mirror's report, all topics; None where there was no forced switch. Of such a switch also:
    `diverged`, `lost_at_ms` (when A died), `diverged_sent_again` (of the records that the report
    knows to be missing in `diverged`, those that edges sent again) and `perhaps_there` (of the
    others at most so many came as new ones). `pictures`: of B's alarms, at
    the cameras' edge; `pictures_at_b`: of these in B's own store. `first_stored_ms`: from the last
    record that A acknowledged until a record that B took itself was in B's store;
    None: not seen."""

    acknowledged: Mapping[Via, AbstractSet[str]]
    at_a: AbstractSet[str]
    at_b: AbstractSet[str]
    stored_b: int
    stored_b_at_switch: int
    folded: int = 0
    known_missing: int | None = None
    sent_again: int | None = None
    edges_not_heard: Sequence[str] = ()
    diverged: Sequence[DivergedPartition] = ()
    lost_at_ms: int = -1
    diverged_sent_again: int = 0
    perhaps_there: int = 0
    pictures: int = 0
    pictures_at_b: int = 0
    first_stored_ms: int | None = None


class SitesReconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers are records. `lost`: ids that a camera's receiver or A's store had and B has not;
    `lost_known` of them the report names, `lost_unheard` A acknowledged after it was heard last."""

    by_edge: int
    directly: int
    stored_a: int
    stored_b: int
    stored_b_after_switch: int
    folded: int
    known_missing: int | None
    sent_again: int | None
    pictures: int
    pictures_at_b: int
    first_stored_ms: int | None
    lost_through_edge: Sequence[str]
    lost_directly: Sequence[str]
    only_at_a: Sequence[str]
    lost_known: int
    lost_unheard: int
    faults: Sequence[str]

    @property
    def lost(self) -> list[str]:
        """Every record that B lacks, once."""
        return sorted({*self.lost_through_edge, *self.lost_directly, *self.only_at_a})

    @property
    def balanced(self) -> bool:
        """Everything is at B, or is a loss that this kind of switch may have and that is named."""
        return not self.faults


def reconcile_sites(
    records: SiteRecords, faults_of_b: Sequence[str], *, planned: bool
) -> SitesReconciliation:
    """Compare. A planned switch may lose nothing; a forced one nothing through an edge that
    survived, and of the rest only what its report says is missing, to the record."""
    edge, direct = records.acknowledged.get("edge", set()), records.acknowledged.get("bus", set())
    lost_edge, lost_direct = sorted(edge - records.at_b), sorted(direct - records.at_b)
    only_a = sorted(records.at_a - records.at_b - edge - direct)
    faults = [f"B: {fault}" for fault in faults_of_b]
    if lost_edge:
        faults.append(
            f"the edge acknowledged {len(lost_edge)} records that B lacks: {_some(lost_edge)}"
        )
    if planned and (lost_direct or only_a):
        missing = sorted({*lost_direct, *only_a})
        faults.append(f"a planned switch lost {len(missing)} records: {_some(missing)}")
    lost = {*lost_edge, *lost_direct, *only_a}
    if not planned:
        faults += report_faults(records, lost)
    if not edge or not records.at_a or records.stored_b_at_switch >= records.stored_b:
        faults.append(
            "nothing went through the edge, to A's store, or to B's store after the switch"
        )
    if records.pictures_at_b < records.pictures:
        missing_pictures = records.pictures - records.pictures_at_b
        faults.append(f"B's store lacks {missing_pictures} pictures of its alarms")
    if records.edges_not_heard:
        faults.append(f"edges that did not say what they sent again: {records.edges_not_heard}")
    known = {one.record_id for part in records.diverged for one in part.reported()} & lost
    return SitesReconciliation(
        by_edge=len(edge), directly=len(direct), stored_a=len(records.at_a),
        stored_b=records.stored_b,
        stored_b_after_switch=records.stored_b - records.stored_b_at_switch,
        folded=records.folded, known_missing=records.known_missing, sent_again=records.sent_again,
        pictures=records.pictures, pictures_at_b=records.pictures_at_b,
        first_stored_ms=records.first_stored_ms,
        lost_through_edge=lost_edge, lost_directly=lost_direct, only_at_a=only_a,
        lost_known=len(known), lost_unheard=len(lost - known), faults=faults,
    )  # fmt: skip


def report_faults(records: SiteRecords, lost: AbstractSet[str]) -> list[str]:
    """Where the report of a forced switch is not what both sites hold."""
    faults = [
        fault for part in records.diverged for fault in _divergence_faults(part, records, lost)
    ]
    own = {one.record_id for part in records.diverged for one in part.records}
    if stray := sorted(lost - own):
        faults.append(
            f"B lacks {len(stray)} records that A had not behind the ends of the report: "
            f"{_some(stray)}"
        )
    reported = [one.record_id for part in records.diverged for one in part.reported()]
    missing = sum(record_id not in records.at_b for record_id in reported)
    stated = sum(part.known_missing for part in records.diverged) - records.diverged_sent_again
    if not 0 <= stated - missing <= records.perhaps_there:
        faults.append(
            f"the report says that {stated} records are still missing, up to "
            f"{records.perhaps_there} of them perhaps not; {missing} are"
        )
    return faults


def _divergence_faults(
    part: DivergedPartition, records: SiteRecords, lost: AbstractSet[str]
) -> list[str]:
    reported = len(part.reported())
    faults = []
    if reported != part.known_missing:
        faults.append(
            f"{part.name}: the report knows {part.known_missing} records to be missing, A's disks "
            f"hold {reported} in these offsets"
        )
    unheard = [one for one in part.records[reported:] if one.record_id in lost]
    if unheard and part.heard_ms < records.lost_at_ms - HEARD_WITHIN_MS:
        before = "never" if part.heard_ms < 0 else f"{records.lost_at_ms - part.heard_ms} ms before"
        faults.append(
            f"{part.name}: {len(unheard)} lost records are not in the report, which had heard of "
            f"it {before} A's end"
        )
    return faults


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more
