"""The account over two sites: what cameras were told, against what each site's store has. Pure.

In: record ids from every source. Out: a `SitesReconciliation` with all that does not add up. Never:
I/O; a loss called zero because nothing was heard of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

SHOWN_IDS = 5

Via = Literal["edge", "bus"]


class SiteRecords(msgspec.Struct, frozen=True, kw_only=True):
    """`acknowledged`: ids that a receiver acknowledged to the city, by the way they came;
    `at_a`, `at_b`: ids in the stores, or among what they rejected. `folded`: acknowledged records
    whose ids are not known any more, compared in number only. `known_missing`, `sent_again`: of the
    mirror's report, all topics; None where there was no forced switch. `pictures`: of B's alarms,
    at the cameras' edge; `pictures_at_b`: of these in B's own store. `first_stored_ms`: from the
    end of A (its site epoch, or its death) until a record that B took itself was in B's store;
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
    pictures: int = 0
    pictures_at_b: int = 0
    first_stored_ms: int | None = None


class SitesReconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers are records. `lost`: ids that a camera's receiver or A's store had and B has not."""

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
    """Compare. A planned switch may lose nothing; a forced one nothing through an edge
    that survived."""
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
    if not edge or not records.at_a or records.stored_b_at_switch >= records.stored_b:
        faults.append(
            "nothing went through the edge, to A's store, or to B's store after the switch"
        )
    if records.pictures_at_b < records.pictures:
        missing_pictures = records.pictures - records.pictures_at_b
        faults.append(f"B's store lacks {missing_pictures} pictures of its alarms")
    if records.edges_not_heard:
        faults.append(f"edges that did not say what they sent again: {records.edges_not_heard}")
    return SitesReconciliation(
        by_edge=len(edge), directly=len(direct), stored_a=len(records.at_a),
        stored_b=records.stored_b,
        stored_b_after_switch=records.stored_b - records.stored_b_at_switch,
        folded=records.folded, known_missing=records.known_missing, sent_again=records.sent_again,
        pictures=records.pictures, pictures_at_b=records.pictures_at_b,
        first_stored_ms=records.first_stored_ms,
        lost_through_edge=lost_edge, lost_directly=lost_direct, only_at_a=only_a, faults=faults,
    )  # fmt: skip


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more
