"""What waits for an approval of lists: read it beside the list in force, approve it, reject it,
withdraw it.

Who approves has the role; that he is not its author, and that it is what he has read, the site's
decider says.
"""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from bus.client.kafka.command_client import new_command_id
from bus.contracts.commands import ANY_VERSION
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import ListCommand, ListRecord
from bus.domain.list_in_force import ListInForce
from bus.domain.list_text import list_text_sha256
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_json
from monitor.api.list_changes import ISSUER
from monitor.api.proposals import MAX_VERDICT_BYTES, TOO_LARGE, VERDICT_NEEDS, Verdict
from monitor.api.services import ConsoleServices
from monitor.api.views import Row, clock

SHOWN_LINES = 100
"""Of a proposed change."""
LIST_PARTS = (
    "name", "owner", "source", "legal_ground", "date", "severity", "tolerance", "alarms",
    "renewal_days",
)  # fmt: skip


class ListDecision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what waits under a list's id. `text_sha256`: of what was read, needed to approve it;
    `seen_version`: of the list in force that it was compared with."""

    list_id: str
    text_sha256: str = ""
    seen_version: int = ANY_VERSION
    reason: str = ""


def list_decision_command(
    op: Verdict, said: ListDecision, who: ConsolePrincipal
) -> ListCommand:
    """The command that says so."""
    return ListCommand(
        list_id=said.list_id, op=op, text_sha256=said.text_sha256, seen_version=said.seen_version,
        reason=said.reason, author=who.name, account=who.name, issuer=ISSUER,
        command_id=new_command_id(),
    )  # fmt: skip


def list_proposal_row(
    proposal: ListProposal, in_force: Mapping[str, ListInForce], zone: ZoneInfo
) -> Row:
    """Its text, whose it is, what to name in an approval, and where it differs from what is in
    force."""
    text, present = proposal.text, in_force.get(proposal.list_id)
    put = [one.plate for one in text.put_lines] + [one.entry for one in text.put_faces]
    return {
        "list_id": proposal.list_id, "kind": text.kind, "op": text.op,
        "proposed_by": proposal.proposed_by,
        "proposed_at": clock(proposal.decided_at_ms, zone),
        "ends_at": clock(proposal.ends_ms, zone),
        "reason": text.reason, "case": text.case,
        "text_sha256": list_text_sha256(text),
        "seen_version": present.record.version if present is not None else 0,
        "lines": text.base_lines, "removed_lines": text.removed_lines,
        "put": put[:SHOWN_LINES], "put_count": len(put),
        "removed": list(text.removed_plates[:SHOWN_LINES]),
        "removed_count": len(text.removed_plates),
        "text": _parts(text) if text.op == "put" else {},
        "in_force": (
            None if present is None else _parts(present.record) | {"lines": present.lines}
        ),
    }  # fmt: skip


def _parts(text: ListCommand | ListRecord) -> Row:
    return {name: getattr(text, name) for name in LIST_PARTS}


def list_proposal_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api/list-proposals")

    @router.get("", dependencies=[Depends(allow(ConsoleOperation.WATCH_READ))])
    async def proposals() -> Response:
        """Oldest first."""
        waiting, found = await services.lists.run(
            lambda reader: (reader.proposals(now_ms()), reader.lists(now_ms()))
        )
        in_force = {one.record.list_id: one for one in found}
        zone = services.site.tz
        rows = [list_proposal_row(one, in_force, zone) for one in waiting]
        return json_response({"rows": rows})

    for op, needed in VERDICT_NEEDS.items():
        _add_decision(router, services, op, needed)
    return router


def _add_decision(
    router: APIRouter, services: ConsoleServices, op: Verdict, needed: ConsoleOperation
) -> None:
    @router.post(f"/{op}", name=f"list-{op}")
    async def settle(
        request: Request, who: ConsolePrincipal = Depends(allow(needed))
    ) -> Response:
        said = await read_json(request, ListDecision, MAX_VERDICT_BYTES, TOO_LARGE)
        answer = await services.commands.send(list_decision_command(op, said, who))
        return json_response(
            {"list_id": said.list_id, "version": answer.version, "verdict": op}
        )
