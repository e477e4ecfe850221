"""The deployment register: the whole of it, a page of its places, and a file that changes it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from bus.contracts.register import encode_register
from bus.contracts.register_entry import RegisterEntry
from bus.domain.register_formats import LineFault
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import VIEW, allow, json_response, large_response, read_body
from monitor.api.parameters import ShortText
from monitor.api.register_rows import KINDS_OF_PLACE, place_rows
from monitor.api.services import ConsoleServices
from monitor.live.register_writes import ImportOutcome, RegisterUnavailable

MAX_PAGE = 500
MAX_FILE_BYTES = 8 << 20  # forty thousand devices; larger ones go by `./databus register import`
TOO_LARGE = (
    f"a file has at most {MAX_FILE_BYTES >> 20} MiB here; larger ones are for "
    "./databus register import"
)
MAX_LISTED = 1_000  # changes and faults of an answer; more are counted
Form = Literal["csv", "geojson", "json"]


def add_register(router: APIRouter, services: ConsoleServices) -> None:
    """Where the devices stand."""

    @router.get("/register", dependencies=[VIEW])
    async def register_(v: ShortText = "") -> Response:
        """`v` is what a page knows the register by, so that a browser asks again after a change."""
        text = await asyncio.to_thread(lambda: encode_register(services.register.read()))
        return large_response(text, **{"Cache-Control": "private, max-age=3600"})

    @router.get("/places", dependencies=[VIEW])
    async def places(
        kind: str = "",
        text: ShortText = "",
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
        cursor: str = "",
    ) -> Response:
        if kind not in ("", *KINDS_OF_PLACE):
            raise HTTPException(422, f"kind: one of {', '.join(KINDS_OF_PLACE)}")
        if not cursor.isascii() or not (cursor == "" or cursor.isdigit()) or len(cursor) > 9:
            raise HTTPException(422, "cursor: none of this list")
        rows = await asyncio.to_thread(lambda: place_rows(services.register.read(), kind, text))
        begin = int(cursor or "0")
        more = begin + limit < len(rows)
        following = str(begin + limit) if more else ""
        return json_response({"rows": rows[begin : begin + limit], "cursor": following})

    @router.post("/register")
    async def import_file(
        request: Request,
        who: Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.REGISTER_WRITE))],
        form: Annotated[Form, Query(alias="format")],
        replace: bool = False,
        dry_run: bool = False,
    ) -> Response:
        try:
            outcome = await services.register_writes.import_file(
                await read_body(request, MAX_FILE_BYTES, TOO_LARGE), form,
                replace=replace, dry_run=dry_run, author=who.name,
            )
        except RegisterUnavailable as error:
            raise HTTPException(503, str(error)) from error
        return json_response(outcome_row(outcome), 422 if outcome.faults else 200)


def outcome_row(outcome: ImportOutcome) -> dict[str, object]:
    """What a file would change or has changed, or why it did not."""
    return {
        "written": outcome.written,
        "changes": change_rows(outcome)[:MAX_LISTED],
        "change_count": len(outcome.changes),
        "faults": [fault_row(one) for one in outcome.faults[:MAX_LISTED]],
        "fault_count": len(outcome.faults),
    }


def change_rows(outcome: ImportOutcome) -> list[dict[str, str]]:
    """`add`, `change` or `remove`, in the order in which they are sent."""
    return [
        {"change": _change(one, outcome.added), "kind": one.kind, "entry": one.id}
        for one in outcome.changes.values()
    ]


def _change(one: RegisterEntry, added: frozenset[str]) -> str:
    if one.op == "remove":
        return "remove"
    return "add" if one.key in added else "change"


def fault_row(fault: LineFault) -> dict[str, object]:
    """The line counts from one; 0 stands for the whole file."""
    return {"line": fault.line, "text": fault.text, "text_zh": fault.text_zh}
