"""Lists of plates and galleries of faces: which are in force, their lines a page at a time, and
whether they mean a plate, or have an entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Query, Response

from bus.contracts.plate_lists import FaceLine, ListLine
from bus.domain.list_in_force import ListInForce
from bus.runtime.wall_clock import now_ms
from monitor.accounts.roles import ConsoleOperation
from monitor.api.access import allow, json_response
from monitor.api.parameters import ShortText, place_of
from monitor.api.services import ConsoleServices
from monitor.api.views import clock

MAX_PAGE = 500
MAX_PLACE_DIGITS = 9
READ = Depends(allow(ConsoleOperation.WATCH_READ))


def plate_list_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")

    @router.get("/lists", dependencies=[READ])
    async def lists() -> Response:
        found = await services.lists.run(lambda reader: reader.lists(now_ms()))
        return json_response({"rows": [list_row(one, services.site.tz) for one in found]})

    @router.get("/lists/{list_id}/lines", dependencies=[READ])
    async def lines(
        list_id: str,
        plate: ShortText = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: str = "",
    ) -> Response:
        """Those that mean `plate`, as tolerant as the list is; of a gallery the face of the entry
        `plate`. Without one all, a page at a time."""
        begin = place_of(cursor, MAX_PLACE_DIGITS)
        if plate:
            like = await services.lists.run(lambda reader: reader.lines_like(list_id, plate))
            found = None if like is None else (like, 0)
        else:
            found = await services.lists.run(lambda reader: reader.lines(list_id, begin, limit))
        if found is None:
            raise HTTPException(404, f"no list {list_id[:64]!a} is in force")
        rows, following = found
        return json_response({"rows": line_rows(rows), "cursor": str(following or "")})

    return router


def list_row(one: ListInForce, zone: ZoneInfo) -> dict[str, object]:
    """One list in force."""
    record = one.record
    return {
        "list_id": record.list_id, "name": record.name, "lines": one.lines,
        "version": record.version, "owner": record.owner, "source": record.source,
        "legal_ground": record.legal_ground, "date": record.date, "severity": record.severity,
        "tolerance": record.tolerance, "alarms": record.alarms, "kind": record.kind,
        "model": None if record.model is None else msgspec.to_builtins(record.model),
        "renewal_days": record.renewal_days, "renewed_at": clock(record.renewed_at_ms, zone)[:19],
        "changed_at": clock(record.decided_at_ms or record.version, zone)[:19],
        "changed_by": record.decided_by, "is_overdue": one.is_overdue, "problem": one.problem,
    }  # fmt: skip


def line_rows(lines: Sequence[ListLine | FaceLine]) -> list[dict[str, object]]:
    """As a page of a grid; of a face the entry, and not its feature."""
    return [
        {
            "line": one.number, "note": one.note, "date": one.date,
            "plate": "" if isinstance(one, FaceLine) else one.plate,
            "entry": one.entry if isinstance(one, FaceLine) else "",
        }
        for one in lines
    ]  # fmt: skip
