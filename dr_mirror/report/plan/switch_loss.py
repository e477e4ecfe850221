"""What edges that have moved make of a forced switch: what is lost of what was missing. Pure.

In: the report of a forced switch, what edges sent again. Out: a statement for the report, a
`SwitchLoss`. Never: a record taken off what is missing that no edge has named.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.client.model import TopicPartition
from bus.contracts.sent_again import SentAgain
from bus.contracts.site_epoch import SiteEpoch
from dr_mirror.report.plan.switch_report import (
    EDGE,
    FORCED,
    REJOINED,
    PartitionStatement,
    SwitchStatement,
    statement,
)


def edge_statement(
    epoch: SiteEpoch, url: str, sent: SentAgain, forced: SwitchStatement, now_ms: int
) -> SwitchStatement:
    """What this edge makes of a forced switch: of each partition the records that were known to be
    missing, and those behind them, of which nothing was known."""
    at_switches = {TopicPartition(one.topic, one.partition): one for one in forced.partitions}
    found = []
    for each in sent.partitions:
        at_switch = at_switches.get(TopicPartition(each.topic, each.partition))
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


def switch_loss(at_switches: Iterable[SwitchStatement]) -> SwitchLoss | None:
    """Over all statements of a report; None where the switch was not forced."""
    statements = list(at_switches)
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
