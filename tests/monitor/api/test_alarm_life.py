"""The life of alarms by the API: what the decider answers is what the caller gets."""

from __future__ import annotations

import asyncio
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from console_city import alarms
from console_services import client_of, make_services, signed
from console_traffic import make_topics, producer, send_events
from fastapi import FastAPI

from bus.client.kafka.command_client import ANSWER_S
from bus.contracts.alarm_states import AlarmState
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from tests.running_dispatcher import running_dispatcher

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-alarm-life")]
ALARM = "w-stolen:a-1"


@pytest.fixture(scope="module")
def address(broker: RunningBroker, filled: tuple[Path, int]) -> str:
    make_topics(broker.bootstrap)
    send_events(producer(broker.bootstrap), alarms(filled[1]), [])
    return broker.bootstrap


@pytest.fixture
def operations(address: str, data_path: Path) -> Iterator[Path]:
    with running_dispatcher(address, data_path, alarms=30) as path:
        yield path


@pytest.fixture
def services_on_bus(
    address: str, operations: Path, data_path: Path, filled: tuple[Path, int]
) -> ConsoleServices:
    return make_services(data_path, filled[1], address, operations=operations)


def log_in(services: ConsoleServices, client: httpx.AsyncClient, name: str) -> httpx.AsyncClient:
    sid = services.sessions.open(ConsolePrincipal(name=name, roles=EVERYBODY), guest=True)
    client.cookies.set("databus_console", signed({"sid": sid}, services.secret))
    return client


@pytest.fixture
async def desks(services_on_bus: ConsoleServices) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Two operators at one console."""
    app = create_api(services_on_bus)
    made = [log_in(services_on_bus, client_of(app), name) for name in ("li", "wang")]
    yield made
    await asyncio.gather(*(one.aclose() for one in made))
    await asyncio.to_thread(services_on_bus.commands.close)


async def decides(client: httpx.AsyncClient) -> None:
    """The dispatcher has begun to: a take that nobody answers is taken here."""
    said = await client.post("/api/alarms/w-white:a-9/comment", json={"text": "x"})
    assert said.status_code == 200, said.text


async def test_an_alarm_goes_through_its_life_and_each_answer_says_what_became_of_it(
    desks: list[httpx.AsyncClient],
) -> None:
    """Two desks; lists, the alarm's page, files and the package of evidence say the same."""
    li, wang = desks
    await decides(li)
    path = f"/api/alarms/{ALARM}"
    both = await asyncio.gather(li.post(f"{path}/take"), wang.post(f"{path}/take"))
    assert sorted(one.status_code for one in both) == [200, 409]
    won, lost = sorted(both, key=lambda one: one.status_code)
    owner = won.json()["owner"]
    assert (won.json()["outcome"], won.json()["stage"]) == ("accepted", "taken")
    assert {name: lost.json()[name] for name in ("code", "changed_by", "changed_at_ms")} == {
        "code": "already_taken", "changed_by": owner, "changed_at_ms": won.json()["since_ms"],
    }  # fmt: skip
    seen = won.json()["version"]
    early = await li.post(f"{path}/close", json={"result": "lost"})
    assert (early.status_code, early.json()["code"]) == (409, "not_judged")
    body = {"why": "misread", "text": "3 not 8", "seen_version": seen, "case": "c-7"}
    judged = await wang.post(f"{path}/false", json=body)
    assert (judged.json()["stage"], judged.json()["verdict"]) == ("false", "false")
    stale = await li.post(f"{path}/confirm", json={"seen_version": seen})
    assert (stale.status_code, stale.json()["changed_by"]) == (409, "wang")
    for op, said in (("comment", {"text": "told"}), ("assign", {"to": "zhao"}), ("close", {"result": "no_action"})):
        assert (await li.post(f"{path}/{op}", json=said)).status_code == 200
    one = (await li.get(path)).json()
    assert [step["op"] for step in one["history"]] == ["take", "false", "comment", "assign", "close"]
    assert (one["stage"], one["owner"], one["result"]) == ("closed", "zhao", "no_action")
    closed = (await li.get("/api/alarms", params={"stage": "closed"})).json()["rows"]
    assert [(row["alarm_id"], row["owner"]) for row in closed] == [(ALARM, "zhao")]
    assert (await li.get("/api/alarms", params={"owner": "zhao", "stage": "unfinished"})).json()["rows"] == []
    table = (await li.get("/api/alarms.csv", params={"stage": "closed"})).text
    assert "closed,zhao,false" in table
    package = await li.get(f"/api/evidence/alarms/{ALARM}")
    with zipfile.ZipFile(BytesIO(package.content)) as found:
        manifest = msgspec.json.decode(found.read("manifest.json"))
        page = found.read("index.html").decode()
    assert [step["what"] for step in manifest["alarm"]["history"]] == ["take", "false", "comment", "assign", "close"]
    assert "3 not 8" in page


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("r:nobody/take", None, 404, "alarm_id"),
        (f"{ALARM}/assign", {}, 422, "to"),
        (f"{ALARM}/false", {}, 422, "why"),
        (f"{ALARM}/false", {"why": "bored"}, 422, None),
        (f"{ALARM}/close", {}, 422, "result"),
        (f"{ALARM}/comment", {"text": " "}, 422, "text"),
        (f"{ALARM}/comment", {"text": "x" * 501}, 422, "text"),
        (f"{ALARM}/comment", {"text": "x" * 9_000}, 413, None),
        (f"{ALARM}/comment", {"who": "me"}, 422, None),
        ("w-stolen:a-2/reopen", None, 409, "op"),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_the_part_at_fault(
    desks: list[httpx.AsyncClient], path: str, body: Any, status: int, field: str | None
) -> None:
    await decides(desks[0])
    reply = await desks[0].post(f"/api/alarms/{path}", json=body)
    assert reply.status_code == status, reply.text
    if field is not None:
        assert reply.json()["field"] == field


async def test_while_nobody_decides_an_alarm_is_taken_here_within_two_seconds(
    app: FastAPI, services: ConsoleServices
) -> None:
    """No broker at all: the first has it, the other is told who; all else is refused."""
    li, wang = (log_in(services, client_of(app), name) for name in ("li", "wang"))
    begun_s = time.monotonic()
    taken = await li.post(f"/api/alarms/{ALARM}/take")
    assert time.monotonic() - begun_s < ANSWER_S, "the page did not wait for a decider"
    assert (taken.status_code, taken.json()["outcome"], taken.json()["owner"]) == (200, "taken_here", "li")
    assert services.acknowledgements.who(ALARM) == "li"
    assert (await wang.get(f"/api/alarms/{ALARM}")).json()["owner"] == "li"
    lost = await wang.post(f"/api/alarms/{ALARM}/take")
    assert (lost.status_code, lost.json()["changed_by"], lost.json()["code"]) == (409, "li", "already_taken")
    again = await li.post(f"/api/alarms/{ALARM}/take")
    assert again.json()["owner"] == "li"
    assert (await li.post(f"/api/alarms/{ALARM}/comment", json={"text": "x"})).status_code == 503
    await asyncio.gather(li.aclose(), wang.aclose())
    await asyncio.to_thread(services.commands.close)


async def test_a_viewer_may_not_act_and_nobody_is_asked(as_role: Any) -> None:
    viewer = as_role(AccountRole.VIEWER)
    for op in ("take", "assign", "confirm", "false", "comment", "close", "reopen"):
        assert (await viewer.post(f"/api/alarms/{ALARM}/{op}")).status_code == 403


async def test_what_nobody_has_touched_for_a_quarter_of_a_year_is_over(
    services: ConsoleServices, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = msgspec.convert({
        "alarm_id": ALARM, "stage": "taken", "epoch": 0, "n": 5, "owner": "li", "since_ms": 5,
        "history": [{"op": "take", "by": "li", "at_ms": 5, "stage": "taken"}],
    }, AlarmState)  # fmt: skip
    reader = await services.alarms.run(lambda r: type(r))
    monkeypatch.setattr(reader, "alarm_states", lambda self, ids: {ALARM: old})
    async with log_in(services, client_of(app), "li") as client:
        reply = await client.post(f"/api/alarms/{ALARM}/confirm")
    assert (reply.status_code, reply.json()["code"]) == (409, "is_closed")
