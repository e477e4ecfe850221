"""What the edges of a site keep for the other one, and what that makes of RPO and report. Pure.

In: answers of edges, the report of a forced switch. Out: an `EdgeStatus` each, the RPO through
edges, a statement for the report. Never: an edge that does not answer taken for one that keeps all;
a record taken off what is missing that no edge has named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bus.client.model import TopicPartition
from bus.contracts.sent_again import SentAgain
from bus.contracts.site_epoch import SiteEpoch
from dr_mirror.plan.switch_report import (
    EDGE,
    FORCED,
    REJOINED,
    PartitionStatement,
    SwitchStatement,
    statement,
)

FRESH_MS = 30_000
"""An edge that was not heard for so long may keep nothing by now."""


class EdgeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One edge of `mirror.edge_urls`. `heard_ms`: when it answered last, -1: never. `sends_to`:
    `home` or `second`. `uncovered_records`: deleted before the other site had them. `problem`: why
    it says nothing of a second site; empty: it does."""

    url: str
    heard_ms: int = -1
    sends_to: str = ""
    kept_records: int = 0
    uncovered_records: int = 0
    problem: str = ""

    def covers(self, now_ms: int) -> bool:
        """Whether nothing that came through this edge would be lost with the primary."""
        is_fresh = self.heard_ms >= 0 and now_ms - self.heard_ms <= FRESH_MS
        return is_fresh and not self.problem and not self.uncovered_records


class _SecondSite(msgspec.Struct, frozen=True, kw_only=True):
    active: str
    kept_records: int
    uncovered_records: int


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    second_site: _SecondSite | None = None


def edge_status(url: str, answer: bytes, now_ms: int) -> EdgeStatus:
    """What an edge's `/v1/status` says of its second site."""
    try:
        found = msgspec.json.decode(answer, type=_Answer).second_site
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return EdgeStatus(url=url, problem=f"its answer cannot be read: {error}")
    if found is None:
        problem = "it has no second site: edge.second_site_bootstrap_servers"
        return EdgeStatus(url=url, heard_ms=now_ms, problem=problem)
    return EdgeStatus(
        url=url, heard_ms=now_ms, sends_to=found.active, kept_records=found.kept_records,
        uncovered_records=found.uncovered_records,
    )  # fmt: skip


def rpo_through_edges_s(rpo_s: float, edges: Sequence[EdgeStatus], now_ms: int) -> float:
    """Of what came through these edges: 0 while each keeps what the other site lacks, else that of
    the mirror. -1: not known, or there are none."""
    if not edges:
        return -1.0
    return 0.0 if all(edge.covers(now_ms) for edge in edges) else rpo_s


def edge_statement(
    epoch: SiteEpoch, url: str, sent: SentAgain, forced: SwitchStatement, now_ms: int
) -> SwitchStatement:
    """What this edge makes of a forced switch: of each partition the records that were known to be
    missing, and those behind them, of which nothing was known."""
    said = {TopicPartition(one.topic, one.partition): one for one in forced.partitions}
    found = []
    for each in sent.partitions:
        at_switch = said.get(TopicPartition(each.topic, each.partition))
        if at_switch is None or at_switch.end < 0:
            continue
        known_end = max(at_switch.heard_end, at_switch.end)
        found.append(PartitionStatement(
            topic=each.topic, partition=each.partition, end=at_switch.end,
            heard_end=at_switch.heard_end, heard_ms=at_switch.heard_ms,
            sent_again=_within(each.ranges, at_switch.end, known_end),
            sent_again_beyond=_within(each.ranges, known_end, None),
        ))  # fmt: skip
    return msgspec.structs.replace(
        statement(EDGE, epoch, now_ms, found), source=url, moved_ms=sent.at_ms,
        unacknowledged=sent.unacknowledged,
    )  # fmt: skip


def _within(ranges: Iterable[tuple[int, int]], first: int, end: int | None) -> int:
    """How many offsets of the ranges are in [first, end); None: no end."""
    return sum(
        max(0, (last if end is None else min(last, end)) - max(begin, first))
        for begin, last in ranges
    )


class SwitchLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A forced switch as it is known by now. `missing`: known, and not sent again; at most so many
    are lost of what was heard of. `perhaps_there`: of these at most so many came to the new primary
    as new ones, because an edge had not heard that the former one had them. `beyond`: sent again
    though nobody had heard of them. `is_final`: the former primary has returned; `own`: records
    that only it had, -1: they cannot be counted. Where they are, `missing` is what of them was not
    sent again, heard of or not."""

    known_missing: int
    sent_again: int
    beyond: int
    missing: int
    perhaps_there: int
    edges: int
    is_final: bool
    own: int = -1


def switch_loss(said: Iterable[SwitchStatement]) -> SwitchLoss | None:
    """Over all statements of a report; None where the switch was not forced."""
    statements = list(said)
    forced = next((one for one in statements if one.kind == FORCED), None)
    if forced is None:
        return None
    edges = [one for one in statements if one.kind == EDGE]
    known = sum(one.known_missing for one in forced.partitions)
    again = sum(max(each.sent_again, 0) for one in edges for each in one.partitions)
    beyond = sum(max(each.sent_again_beyond, 0) for one in edges for each in one.partitions)
    rejoined = next((one for one in statements if one.kind == REJOINED), None)
    own = -1 if rejoined is None else _own_records(rejoined)
    missing = max(known - again if own < 0 else own - again - beyond, 0)
    return SwitchLoss(
        known_missing=known, sent_again=again, beyond=beyond, missing=missing,
        perhaps_there=min(missing, sum(one.unacknowledged for one in edges)), edges=len(edges),
        is_final=rejoined is not None, own=own,
    )  # fmt: skip


def _own_records(rejoined: SwitchStatement) -> int:
    """All that only the former primary had; -1: it never returned, another cluster did."""
    counted = [one.records for one in rejoined.partitions]
    return sum(counted) if counted and min(counted) >= 0 else -1
