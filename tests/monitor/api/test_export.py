"""What is exported: all that a page of the console shows, as a table or as lines of JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from monitor.accounts.roles import AccountRole
from monitor.api.access import PIECE_BYTES
from monitor.api.export import Export
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices

LISTS = ("records", "alarms")
QUESTIONS = (
    ("records", {}),
    ("records", {"kind": "face"}),
    ("records", {"plate": "浙A*7"}),
    ("alarms", {}),
    ("alarms", {"severity": "critical"}),
    ("alarms", {"checkpoint": "330100#1#1#0"}),
)


async def all_rows(client: Any, name: str, asked: dict[str, str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = (await client.get(f"/api/{name}", params={**asked, "cursor": cursor})).json()
        rows += page["rows"]
        if not (cursor := page["cursor"]):
            return rows


def table_of(text: str) -> list[dict[str, str]]:
    assert text.startswith("\ufeff")
    return list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))


@pytest.mark.parametrize(("name", "asked"), QUESTIONS)
async def test_a_file_has_the_rows_that_the_page_shows(
    as_role: Any, name: str, asked: dict[str, str]
) -> None:
    """The same filters, the same order, over all pages of the store."""
    client = as_role(AccountRole.OPERATOR)
    shown = await all_rows(client, name, asked)
    assert shown
    lines = await client.get(f"/api/{name}.jsonl", params=asked)
    assert [json.loads(line) for line in lines.text.splitlines()] == shown
    table = await client.get(f"/api/{name}.csv", params=asked)
    id_field = f"{name[:-1]}_id"
    assert [row[id_field] for row in table_of(table.text)] == [row[id_field] for row in shown]
    for reply, suffix in ((lines, "jsonl"), (table, "csv")):
        assert reply.headers["content-disposition"] == f'attachment; filename="{name}.{suffix}"'


async def test_alarms_of_a_span_are_those_raised_in_it(as_role: Any) -> None:
    """From is part of it, until is not."""
    client = as_role()
    shown = await all_rows(client, "alarms", {})
    cut = shown[len(shown) // 2]["raised_at"].replace(" ", "T")
    for side, fits in (("from", lambda at: at >= cut), ("until", lambda at: at < cut)):
        found = table_of((await client.get("/api/alarms.csv", params={side: cut})).text)
        expected = [r["alarm_id"] for r in shown if fits(r["raised_at"].replace(" ", "T"))]
        assert [row["alarm_id"] for row in found] == expected != []


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize("name", LISTS)
async def test_who_may_only_look_takes_nothing_out_of_the_house(
    as_role: Any, stranger: Any, name: str, suffix: str
) -> None:
    """Alarms are no more public than records."""
    address = f"/api/{name}.{suffix}"
    assert (await as_role(AccountRole.VIEWER).get(address)).status_code == 403
    assert (await stranger.get(address)).status_code == 401
    assert (await as_role(AccountRole.OPERATOR).get(address)).status_code == 200


@pytest.mark.parametrize("asked", ["from=junk", "severity=loud", "cursor=5", "nothing=1"])
async def test_what_cannot_be_read_is_refused_and_nothing_exported(as_role: Any, asked: str) -> None:
    """A dropped filter would put everything into the file."""
    for suffix in ("csv", "jsonl"):
        assert (await as_role().get(f"/api/alarms.{suffix}?{asked}")).status_code == 422


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
async def test_an_absent_store_is_told_before_the_file_begins(
    as_role: Any, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """An empty file would say that there was no alarm."""

    async def away(_: object) -> None:
        raise QueryUnavailable("operations: gone")

    monkeypatch.setattr(services.alarms, "run", away)
    assert (await as_role().get(f"/api/alarms.{suffix}")).status_code == 503


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
async def test_a_large_file_comes_in_pieces_a_page_at_a_time(
    app: FastAPI, services: ConsoleServices, as_role: Any, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Novels in alarms: no piece is more than others can wait for, no page is asked ahead."""
    pages = [[alarm(f"{page}-{n}", note="x" * 4_000) for n in range(500)] for page in range(4)]
    pieces: list[int] = []

    async def run(ask: Any) -> tuple[Sequence[Alarm], str]:
        return ask(PagedAlarms(pages))

    async def spy(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            pieces.append(len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, sent)

    monkeypatch.setattr(services.alarms, "run", run)
    client = as_role()
    client._transport.app = spy
    reply = await client.get(f"/api/alarms.{suffix}")
    assert reply.text.count("x" * 4_000) == 2_000
    assert max(pieces) <= PIECE_BYTES


class PagedAlarms:
    def alarm_states(self, alarm_ids: Sequence[str]) -> dict[str, AlarmState]:
        """Nobody has touched any."""
        return {}

    def __init__(self, pages: list[list[Alarm]]) -> None:
        self._pages = pages

    def alarms(self, *, page: Any, **_: object) -> tuple[Sequence[Alarm], str]:
        at = int(page.cursor or 0)
        return self._pages[at], str(at + 1) if at + 1 < len(self._pages) else ""


def alarm(name: str, note: str = "", plate: str = "浙A12345") -> Alarm:
    return Alarm(
        alarm_id=name, rule_id="w-1", rule_name=note, severity="info", record_id=name, kind="vehicle",
        checkpoint_id="c", captured_at_ms=1, received_at_ms=2, raised_at_ms=3, plate_number=plate,
        attributes={"vehicle_color": note[:9]},
    )  # fmt: skip


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=9))
async def test_no_text_of_a_device_becomes_a_formula_or_breaks_a_row(text: str, value: str) -> None:
    """Whatever it wrote, also as a value of an attribute."""

    async def fetch(_: str) -> tuple[list[dict[str, Any]], str]:
        return [{"one": text, "two": {"=a": value}, "three": 7}], ""

    made = Export(name="n", fetch=fetch, show=dict, columns=("one", "two", "three"))
    reply = await made.table()
    body = "".join([bytes(part).decode() async for part in reply.body_iterator])
    (row,) = list(csv.reader(io.StringIO(body.removeprefix("\ufeff"), newline="")))[1:]
    assert row[2] == "7"
    assert row[0].removeprefix("'") == text.removeprefix("'")
    assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))
    assert row[1].startswith("'=a=")
    lines = await Export(name="n", fetch=fetch, show=dict, columns=()).json_lines()
    (line,) = [msgspec.json.decode(part) async for part in lines.body_iterator]
    assert line["one"] == text
