"""Lists of plates and galleries are put, changed and ended. Whatever is answered as accepted is in
force; what is answered as proposed waits for an approval.

In: a file as the body of a request, or a few lines. Out: what the site's decider said. Never: a
file in memory, or one that stays; two imports at a time.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Annotated

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Request, Response

from bus.client.kafka.command_client import new_command_id
from bus.contracts.commands import ANY_VERSION
from bus.contracts.plate_lists import ListCommand, ListLine, Severity, Tolerance
from bus.domain.command_error import CommandError
from bus.domain.list_check import check_change
from bus.domain.list_import import ListText, ListUpload
from bus.domain.plates import wanted_vehicle
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_json
from monitor.api.parameters import ShortText
from monitor.api.services import ConsoleServices
from monitor.live.command_sender import CommandRefused

MAX_FILE_BYTES = 512 << 20
MAX_CHANGE_BYTES = 256 * 1024
TOO_LARGE = f"a change has at most {MAX_CHANGE_BYTES} bytes; more is an import"
ISSUER = "console"
WAITS = 202
"""The status of what is proposed: nothing is in force yet."""
Writer = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.WATCH_WRITE))]


class NewLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line as people write it."""

    plate: str
    note: str = ""
    date: str = ""


class ListChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lines that are put, or take the place of what is said of their plates, and plates that go."""

    put: list[NewLine] = []
    remove: list[str] = []
    seen_version: int = ANY_VERSION
    confirms_removal: bool = False
    reason: str = ""
    case: str = ""


def list_change_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")
    _add_import(router, services)

    @router.post("/lists/{list_id}/lines")
    async def change(request: Request, list_id: str, who: Writer) -> Response:
        said = await read_json(request, ListChange, MAX_CHANGE_BYTES, TOO_LARGE)
        put = tuple(ListLine(0, _plate(one.plate), one.note, one.date) for one in said.put)
        removed = tuple(map(_plate, said.remove))
        check_change(put, removed)
        command = ListCommand(
            list_id=list_id, op="change", put_lines=put, removed_plates=removed,
            confirms_removal=said.confirms_removal, seen_version=said.seen_version,
            author=who.name, account=who.name, issuer=ISSUER, reason=said.reason, case=said.case,
            command_id=new_command_id(),
        )  # fmt: skip
        answer = await services.commands.send(command)
        status = WAITS if answer.state == "proposed" else 201
        return json_response(msgspec.to_builtins(answer), status)

    @router.delete("/lists/{list_id}")
    async def end(
        list_id: str, who: Writer, seen_version: int = ANY_VERSION,
        reason: ShortText = "", case: ShortText = "",
    ) -> Response:  # fmt: skip
        command = ListCommand(
            list_id=list_id, op="remove", seen_version=seen_version, author=who.name,
            account=who.name, issuer=ISSUER, reason=reason, case=case, command_id=new_command_id(),
        )  # fmt: skip
        return json_response(msgspec.to_builtins(await services.commands.send(command)))

    return router


def _add_import(router: APIRouter, services: ConsoleServices) -> None:
    """A file, with what is said of its list in the address."""
    working = asyncio.Lock()

    @router.post("/lists/{list_id}/import")
    async def import_file(
        request: Request, list_id: str, who: Writer,
        name: ShortText | None = None, owner: ShortText | None = None,
        source: ShortText | None = None, legal_ground: ShortText | None = None,
        date: ShortText | None = None, severity: Severity | None = None,
        tolerance: Tolerance | None = None, alarms: bool | None = None,
        renewal_days: int | None = None, seen_version: int = ANY_VERSION,
        confirms_removal: bool = False, dry_run: bool = False,
        reason: ShortText = "", case: ShortText = "",
        model: ShortText = "", threshold: float | None = None,
    ) -> Response:  # fmt: skip
        """The body is the file, CSV or Excel; whether plates or features of faces stand in it is
        known by its headings. `model`, `threshold`: of features; else as the file and the gallery
        in force say."""
        if working.locked():
            raise HTTPException(503, "another file is being imported: try again when it is done")
        text = ListText(
            name=name, owner=owner, source=source, legal_ground=legal_ground, date=date,
            severity=severity, tolerance=tolerance, alarms=alarms, renewal_days=renewal_days,
        )  # fmt: skip
        async with working, _received(request, services.site.data_path) as path:
            upload = ListUpload(
                list_id, str(path), text, who.name, reason, case, seen_version,
                confirms_removal=confirms_removal, is_dry_run=dry_run, model=model,
                threshold=threshold,
            )  # fmt: skip
            found = await asyncio.to_thread(services.import_list, upload)
        if found.answer is not None and found.answer.state == "refused":
            raise CommandRefused(found.answer)
        is_waiting = found.answer is not None and found.answer.state == "proposed"
        status = 200 if dry_run else WAITS if is_waiting else 201
        return json_response(msgspec.to_builtins(found), status)


@asynccontextmanager
async def _received(request: Request, folder: Path) -> AsyncIterator[str]:
    """The body as a file, for as long as the block lasts."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="list-", suffix=".upload") as file:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_FILE_BYTES:
                raise HTTPException(413, f"a file has at most {MAX_FILE_BYTES >> 20} MiB")
            await asyncio.to_thread(_write, file, chunk)
        file.flush()
        yield file.name


def _write(file: IO[bytes], chunk: bytes) -> None:
    file.write(chunk)


def _plate(written: str) -> str:
    """Raises `CommandError`."""
    plate = wanted_vehicle(written)
    if not plate:
        raise CommandError("plate", f"{written[:20]!r} is no plate", "plate")
    return plate
