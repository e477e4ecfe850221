"""What waits for an approval: read it beside the text in force, approve it, reject it, withdraw it.

Who approves has the role; that he is not its author, and that the text is the one he read, the
site's decider says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from bus.contracts.commands import ANY_VERSION, DecidedRule, WatchCommand
from bus.contracts.proposals import WatchProposal
from bus.domain.rule_check import is_in_force
from bus.domain.rule_targets import text_sha256
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_json
from monitor.api.operations import envelope
from monitor.api.services import ConsoleServices
from monitor.api.views import Row, clock, rule_row
from monitor.live.visible_live import VisibleLive

MAX_VERDICT_BYTES = 16 * 1024
MAX_ROWS = 100
"""Of one answer, the oldest; the next ones follow once these are settled."""
TOO_LARGE = f"a verdict has at most {MAX_VERDICT_BYTES} bytes"
Verdict = Literal["approve", "reject", "withdraw"]
VERDICT_NEEDS: dict[Verdict, ConsoleOperation] = {
    "approve": ConsoleOperation.WATCH_APPROVE, "reject": ConsoleOperation.WATCH_APPROVE,
    "withdraw": ConsoleOperation.WATCH_WRITE,
}  # fmt: skip
"""What whoever says it must be allowed to do; of rules and of lists."""
_TEXT = (
    "name", "kind", "severity", "match", "where_text", "valid_from", "valid_until", "note",
    "visible_to", "target",
)  # fmt: skip


class ProposalDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what waits under a rule's id. `text_sha256`: of the text that was read, needed to approve
    it; `seen_version`: of the text in force that it was compared with."""

    rule_id: str
    text_sha256: str = ""
    seen_version: int = ANY_VERSION
    reason: str = ""


def verdict_command(op: Verdict, verdict: ProposalDecision, who: ConsolePrincipal) -> WatchCommand:
    """The command that says so."""
    return WatchCommand(
        rule_id=verdict.rule_id, op=op, text_sha256=verdict.text_sha256,
        seen_version=verdict.seen_version, reason=verdict.reason, **envelope(who),
    )  # fmt: skip


def proposal_row(services: ConsoleServices, live: VisibleLive, proposal: WatchProposal) -> Row:
    """Its text, whose it is, what to name in an approval, and where it differs from what is in
    force."""
    zone, text = services.site.tz, proposal.text
    present = text_in_force(live, proposal.rule_id)
    row = rule_row(text, zone)
    before = rule_row(present, zone) if present is not None else None
    return {
        **row,
        "proposed_by": proposal.proposed_by,
        "proposed_at": clock(proposal.decided_at_ms, zone),
        "proposed_at_ms": proposal.decided_at_ms,
        "text_sha256": text_sha256(text),
        "seen_version": present.version if present is not None else 0,
        "in_force": before,
        "changes": _changes(before, row),
    }


def text_in_force(live: VisibleLive, rule_id: str) -> DecidedRule | None:
    """What the proposal would replace; an emergency rule whose time is over is none."""
    known = live.rule(rule_id)
    return known if known is not None and is_in_force(known, now_ms()) else None


def _changes(before: Mapping[str, object] | None, after: Mapping[str, object]) -> list[str]:
    """The parts that differ; of a new rule none."""
    return [] if before is None else [name for name in _TEXT if before[name] != after[name]]


def proposal_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api/proposals")

    @router.get("")
    async def proposals(
        who: ConsolePrincipal = Depends(allow(ConsoleOperation.WATCH_READ))
    ) -> Response:
        live = services.live_for(who.viewer)
        waiting = live.waiting()
        rows = [proposal_row(services, live, one) for one in waiting[:MAX_ROWS]]
        return json_response(
            {
                "rows": rows,
                "count": len(waiting),
                "away": services.hub.unavailable,
            }
        )

    for op, needed in VERDICT_NEEDS.items():
        _add_verdict(router, services, op, needed)
    return router


def _add_verdict(
    router: APIRouter, services: ConsoleServices, op: Verdict, needed: ConsoleOperation
) -> None:
    @router.post(f"/{op}", name=op)
    async def settle(
        request: Request, who: ConsolePrincipal = Depends(allow(needed))
    ) -> Response:
        verdict = await read_json(request, ProposalDecision, MAX_VERDICT_BYTES, TOO_LARGE)
        sent = await services.send_rule(verdict_command(op, verdict, who))
        return json_response(
            {"rule_id": verdict.rule_id, "version": sent.command.version, "verdict": op}
        )
