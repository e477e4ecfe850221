"""What the edges of a site keep for the other one, and what that makes of the RPO. Pure.

In: answers of edges. Out: an `EdgeStatus` each, the RPO through edges. Never: an edge that does not
answer taken for one that keeps all.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bus.contracts.mirror_status import EdgeStatus

FRESH_MS = 30_000
"""An edge that was not heard for so long may keep nothing by now."""


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
    return 0.0 if all(covers(edge, now_ms) for edge in edges) else rpo_s


def covers(edge: EdgeStatus, now_ms: int) -> bool:
    """Whether nothing that came through this edge would be lost with the primary."""
    is_fresh = edge.heard_ms >= 0 and now_ms - edge.heard_ms <= FRESH_MS
    return is_fresh and not edge.problem and not edge.uncovered_records
