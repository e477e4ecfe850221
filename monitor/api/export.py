"""All that a question finds, as a file: a table for a spreadsheet, or lines of JSON.

In: a source of pages, how a row is shown. Out: a streamed answer, a page of the store at a time.
Never: more than one page in memory, work of more than a piece on the loop, a cell that a
spreadsheet takes for a formula.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Response
from fastapi.responses import StreamingResponse

from monitor.accounts.roles import ConsoleOperation
from monitor.api.access import allow, in_pieces
from monitor.api.views import Row

EXPORT_PAGE = 500  # rows asked for at once; what an alarm's reader gives at most
MAX_TABLE_ROWS = 1_000_000  # what a spreadsheet opens; lines of JSON have no such bound
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # by which spreadsheets take a table for UTF-8
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")

Stored = TypeVar("Stored")
FetchPage = Callable[[str], Awaitable[tuple[Sequence[Stored], str]]]
"""Rows after a cursor, and the cursor of the next page; empty at both ends."""


@dataclass(frozen=True)
class Export(Generic[Stored]):
    """What is exported: where pages come from and how a row is shown. `show` is called in a
    thread."""

    name: str
    fetch: FetchPage[Stored]
    show: Callable[[Stored], Row]
    columns: tuple[str, ...]

    async def table(self) -> StreamingResponse:
        """CSV, the columns in their order."""

        def lines(rows: Sequence[Stored]) -> bytes:
            shown = (self.show(row) for row in rows)
            return _table_lines([[row[name] for name in self.columns] for row in shown])

        head = BYTE_ORDER_MARK + _table_lines([self.columns])
        return await self._answer("csv", "text/csv; charset=utf-8", head, lines, MAX_TABLE_ROWS)

    async def json_lines(self) -> StreamingResponse:
        """One JSON object a line, with all that a list shows of a row."""

        def lines(rows: Sequence[Stored]) -> bytes:
            return b"".join(msgspec.json.encode(self.show(row)) + b"\n" for row in rows)

        return await self._answer("jsonl", "application/jsonl", b"", lines, None)

    async def _answer(
        self, suffix: str, media_type: str, head: bytes,
        lines: Callable[[Sequence[Stored]], bytes], most: int | None,
    ) -> StreamingResponse:  # fmt: skip
        """The first page is asked for before the answer begins, so that an absent store is a
        503."""
        first = await self.fetch("")
        headers = {
            "Content-Disposition": f'attachment; filename="{self.name}.{suffix}"',
            "Cache-Control": "no-store",
        }
        body = self._body(head, lines, most, *first)
        return StreamingResponse(body, media_type=media_type, headers=headers)

    async def _body(
        self, head: bytes, lines: Callable[[Sequence[Stored]], bytes], most: int | None,
        rows: Sequence[Stored], cursor: str,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        if head:
            yield head
        sent = 0
        while True:
            for piece in in_pieces(await asyncio.to_thread(lines, rows)):
                yield piece
            sent += len(rows)
            if not cursor or (most is not None and sent >= most):
                return
            rows, cursor = await self.fetch(cursor)


def add_exports(
    router: APIRouter, address: str, export: Callable[..., Export[Any] | Awaitable[Export[Any]]]
) -> None:
    """Both files of a list, for those who may take them out of the house. `export` reads the
    question out of the query's parameters."""
    allowed = [Depends(allow(ConsoleOperation.EXPORT))]

    @router.get(f"{address}.csv", dependencies=allowed)
    async def table(made: Export[Any] = Depends(export)) -> Response:
        return await made.table()

    @router.get(f"{address}.jsonl", dependencies=allowed)
    async def json_lines(made: Export[object] = Depends(export)) -> Response:
        return await made.json_lines()


def _table_lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> object:
    """A device's text must not become a spreadsheet's formula."""
    if isinstance(value, dict):
        value = "; ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
