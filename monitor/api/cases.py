"""Cases as who asks sees them: their targets, and of each the rules that look for it.

A case is no thing of its own: it is what rules in force and proposals say of themselves. Its alarms
are `/api/alarms?case=…`, what was asked under it `/api/questions?case=…`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.contracts.commands import WatchCommand
from bus.domain.cases import CaseTarget
from bus.runtime.wall_clock import now_ms
from ingest.store.port import PageRequest
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response
from monitor.api.parameters import Cursor, ShortText
from monitor.api.proposals import proposal_row
from monitor.api.services import ConsoleServices
from monitor.api.views import Row, rule_row
from monitor.live.visible_live import VisibleLive

MAX_PAGE = 500
WatchReader = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_READ))]


def case_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")

    @router.get("/cases")
    async def cases(
        who: WatchReader,
        begins: ShortText = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: Cursor = "",
    ) -> Response:
        """By number; `begins`: how it begins."""
        live = services.live_for(who.viewer)
        try:
            page = live.case_page(now_ms(), limit=limit, begins=begins, cursor=cursor)
        except ValueError as error:
            raise HTTPException(422, f"cursor: {error}") from error
        return json_response(msgspec.to_builtins({"rows": page.cases, "cursor": page.cursor}))

    @router.get("/cases/{case:path}")
    async def one_case(case: str, who: WatchReader) -> Response:
        """404 where he sees neither a rule of it, in force or proposed, nor an alarm."""
        live, number = services.live_for(who.viewer), case.strip()
        found = live.case(number, now_ms())
        if not found.targets and not await has_alarms(services, live, number):
            raise HTTPException(404, "no such case")
        targets = [target_row(services, live, one) for one in found.targets]
        return json_response(
            {"case": number, "targets": targets, "more_rules": found.more_rules}
        )

    return router


async def has_alarms(services: ConsoleServices, live: VisibleLive, case: str) -> bool:
    """Whether an alarm of the case is stored that he sees. Raises `QueryUnavailable`."""
    if not case:
        return False
    found, _ = await services.alarms.run(
        lambda r: r.alarms(page=PageRequest(limit=1), viewer=live.viewer, case=case)
    )
    return bool(found)


def target_row(services: ConsoleServices, live: VisibleLive, target: CaseTarget) -> Row:
    """One target; `state` of a rule: see `rule_states`."""
    zone = services.site.tz
    return {
        "target": target.name,
        "rules": [
            rule_row(one, zone) | {"state": state} for one, state in rule_states(target, now_ms())
        ],
        "waiting": [proposal_row(services, live, one) for one in target.waiting],
    }


def rule_states(target: CaseTarget, at_ms: int) -> Iterator[tuple[WatchCommand, str]]:
    """Its rules with `in_force`, of one whose time begins later `future`, and `changing` where
    another text of it waits."""
    waiting = {one.rule_id for one in target.waiting}
    for rule in target.rules:
        is_future = rule.valid_from_ms > at_ms
        state = "future" if is_future else "in_force"
        yield rule, "changing" if rule.rule_id in waiting else state

