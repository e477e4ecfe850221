"""Lists of plates by the API: a file is imported, lines are changed, a list is ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from console_services import client_of, make_services, signed
from console_traffic import make_topics

from alarm.lists.lists_topic import read_lists
from alarm.lists.uploaded_list import import_uploaded
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import EVERYBODY, ConsolePrincipal
from monitor.api import list_changes
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-bus")]
FILE = ("号牌号码,备注\n" + "".join(f"浙A{n:05d},被盗\n" for n in range(10)) + "张三,x\n").encode("gb18030")


@pytest.fixture(scope="module")
def bus(broker: RunningBroker) -> BusSettings:
    make_topics(broker.bootstrap)
    return BusSettings(bootstrap_servers=broker.bootstrap)


@pytest.fixture
def on_bus(bus: BusSettings, data_path: Path, filled: tuple[Path, int]) -> ConsoleServices:
    made = make_services(data_path, filled[1], bus.bootstrap_servers)
    return replace(made, import_list=partial(import_uploaded, made.site, bus))


@pytest.fixture
async def client(on_bus: ConsoleServices) -> AsyncIterator[httpx.AsyncClient]:
    sid = on_bus.sessions.open(ConsolePrincipal(name="guest", roles=EVERYBODY), guest=True)
    async with client_of(create_api(on_bus)) as found:
        found.cookies.set("databus_console", signed({"sid": sid}, on_bus.secret))
        yield found
    await asyncio.to_thread(on_bus.commands.close)


@pytest.fixture
def decided(bus: BusSettings) -> Iterator[None]:
    with running_decider(bus.bootstrap_servers):
        yield


def plates(bus: BusSettings, list_id: str) -> list[str]:
    stored = read_lists(bus, "check", wanted=None)
    record = stored.in_force.get(list_id)
    return [] if record is None else [line.plate for line in stored.lines(record)]


async def test_a_file_is_looked_at_imported_changed_and_ended(
    client: httpx.AsyncClient, bus: BusSettings, decided: None, on_bus: ConsoleServices
) -> None:
    dry = await client.post("/api/lists/api/import?name=被盗&dry_run=true", content=FILE)
    assert dry.status_code == 200, dry.text
    assert (dry.json()["difference"]["added"], plates(bus, "api")) == (10, [])
    put = await client.post("/api/lists/api/import?name=被盗&tolerance=look-alikes", content=FILE)
    assert put.status_code == 201, put.text
    found: dict[str, Any] = put.json()
    assert (found["lines"], found["answer"]["state"]) == (10, "accepted")
    [refused] = found["refused_lines"]
    assert (refused["line"], refused["text"], refused["reason_zh"]) == (12, "张三 | x", "不是车牌号码")
    assert list(on_bus.site.data_path.glob("list-*")) == []
    record = read_lists(bus, "check").in_force["api"]
    assert (record.name, record.tolerance, record.account) == ("被盗", "look-alikes", "guest")

    change = {"put": [{"plate": "沪b-12345", "note": "x"}], "remove": ["浙A00001"]}
    changed = await client.post("/api/lists/api/lines", json=change)
    assert (changed.status_code, changed.json()["state"]) == (201, "accepted")
    assert {"沪B12345", "浙A00001"} & set(plates(bus, "api")) == {"沪B12345"}
    stale = await client.post("/api/lists/api/lines", json={**change, "seen_version": record.version})
    assert (stale.status_code, stale.json()["changed_by"]) == (409, "guest")

    half = FILE[: len(FILE) // 2]
    many = await client.post("/api/lists/api/import", content=half)
    assert (many.status_code, many.json()["code"]) == (422, "many_removed")
    meant = await client.post("/api/lists/api/import?confirms_removal=true", content=half)
    assert meant.status_code == 201, meant.text
    assert (await client.delete("/api/lists/api?reason=over")).status_code == 200
    assert (await client.delete("/api/lists/api")).status_code == 404
    assert (await client.post("/api/lists/api/lines", json=change)).status_code == 404


@pytest.mark.parametrize(
    ("address", "content", "field"),
    [
        ("/api/lists/x/import", b"a,b\n1,2\n", "file"), ("/api/lists/x/import", b"", "file"),
        ("/api/lists/x!/import", FILE, "list_id"), ("/api/lists/x/import?date=soon", FILE, "date"),
        ("/api/lists/x/lines", json.dumps({"put": [{"plate": "张"}]}).encode(), "put_lines"),
        ("/api/lists/x/lines", json.dumps({"put": [{"plate": "?"}]}).encode(), "plate"),
        ("/api/lists/x/lines", b"{}", "put_lines"),
    ],
)  # fmt: skip
async def test_what_cannot_be_meant_is_answered_with_what_is_wrong(
    client: httpx.AsyncClient, address: str, content: bytes, field: str
) -> None:
    found = await client.post(address, content=content)
    assert (found.status_code, found.json()["field"]) == (422, field), found.text
    assert "/" not in found.json()["error"], "no path of the server"


async def test_a_file_that_is_too_large_is_refused_while_it_comes(
    client: httpx.AsyncClient, on_bus: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_changes, "MAX_FILE_BYTES", 100)
    assert (await client.post("/api/lists/x/import", content=FILE)).status_code == 413
    assert list(on_bus.site.data_path.glob("list-*")) == []
