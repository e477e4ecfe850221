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

from alarm.lists.base_tables import tables_folder
from alarm.lists.import_file import REASONS
from alarm.lists.lists_topic import read_lists
from alarm.lists.stored_list_reader import StoredListReader
from alarm.lists.uploaded_list import import_uploaded
from bus.domain.policy import PolicySettings
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import EVERYBODY, AccountRole, ConsolePrincipal
from monitor.api import list_changes
from monitor.api.app import create_api
from monitor.api.pool import ReaderPool
from monitor.api.services import ConsoleServices
from tests.alarm.lists.excel_files import write_rows
from tests.alarm.lists.made_galleries import feature, text_of, unit
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
    pool = ReaderPool("lists", lambda: StoredListReader(bus, tables_folder(made.site)), threads=1)
    return replace(made, import_list=partial(import_uploaded, made.site, bus, made.feature_models), lists=pool)


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


@pytest.fixture
def approved(bus: BusSettings) -> Iterator[None]:
    with running_decider(bus.bootstrap_servers, PolicySettings(list_sources={"daily": "GUEST"})):
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


async def test_a_gallery_comes_as_csv_or_excel_and_its_model_is_recognised(
    client: httpx.AsyncClient, bus: BusSettings, decided: None, tmp_path: Path
) -> None:
    """Of a new gallery it is said, or stands in the file; then it is that of the gallery in force."""
    faces = {f"P{at}": text_of(feature(unit(128, at))) for at in range(10)}
    csv_file = ("编号,备注,特征\n" + "".join(f"{entry},x,{own}\n" for entry, own in faces.items())).encode("gb18030")
    silent = await client.post("/api/lists/wanted/import", content=csv_file)
    assert (silent.status_code, silent.json()["code"]) == (422, "no_model"), silent.text
    unknown = await client.post("/api/lists/wanted/import?model=none/1", content=csv_file)
    assert (unknown.status_code, unknown.json()["code"]) == (422, "unknown_model")
    dry = await client.post("/api/lists/wanted/import?model=sface&dry_run=true", content=csv_file)
    assert (dry.status_code, dry.json()["difference"]["added_plates"][0]) == (200, "P0"), dry.text
    assert "wanted" not in read_lists(bus, "check").in_force
    put = await client.post("/api/lists/wanted/import?model=sface&threshold=0.5", content=csv_file)
    assert (put.status_code, put.json()["model"]["threshold"]) == (201, 0.5), put.text

    sheet = tmp_path / "faces.xlsx"
    broken = ("P99", "broken", text_of(feature(unit(128, 1))[:-4]))
    rows = [(entry, "y", own) for entry, own in faces.items()]
    write_rows(sheet, [("entry", "note", "feature"), *rows[:9], broken])
    again = await client.post("/api/lists/wanted/import?name=在逃人员", content=sheet.read_bytes())
    assert again.status_code == 201, again.text
    found = again.json()
    assert (found["lines"], found["difference"]["removed_plates"], found["model"]["threshold"]) == (9, ["P9"], 0.5)
    [refused] = found["refused_lines"]
    assert (refused["line"], refused["reason_zh"]) == (11, REASONS["not_a_feature"][1] + " 128")
    record = read_lists(bus, "check").in_force["wanted"]
    assert (record.kind, record.name, record.base_lines) == ("face", "在逃人员", 9)
    write_rows(sheet, [("entry", "note", "feature"), *rows[:4]])
    many = await client.post("/api/lists/wanted/import", content=sheet.read_bytes())
    assert (many.status_code, many.json()["code"]) == (422, "many_removed")
    plates_there = await client.post("/api/lists/wanted/import", content=FILE)
    assert (plates_there.status_code, plates_there.json()["code"]) == (422, "other_kind"), plates_there.text
    photo = await client.post("/api/lists/wanted/import", content=b"\xff\xd8\xff\xe0")
    assert (photo.status_code, "photos cannot be imported" in photo.json()["error"]) == (422, True)
    assert read_lists(bus, "check").in_force["wanted"] == record


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


async def test_an_import_and_a_change_wait_for_another_account_where_the_site_asks_for_it(
    client: httpx.AsyncClient, bus: BusSettings, approved: None, on_bus: ConsoleServices
) -> None:
    """But for what the list's registered source imports."""
    roles = frozenset({AccountRole.APPROVER})
    sid = on_bus.sessions.open(ConsolePrincipal(name="zhao", roles=roles), guest=True)
    source = await client.post("/api/lists/daily/import", content=FILE)
    assert (source.status_code, len(plates(bus, "daily"))) == (201, 10), source.text
    assert (await client.post("/api/lists/waits/import", content=FILE)).json()["code"] == "no_reason"
    put = await client.post("/api/lists/waits/import?reason=weekly", content=FILE)
    assert (put.status_code, put.json()["answer"]["state"], plates(bus, "waits")) == (202, "proposed", [])
    [row] = (await client.get("/api/list-proposals")).json()["rows"]
    assert (row["list_id"], row["lines"], row["in_force"], row["proposed_by"]) == ("waits", 10, None, "guest")
    said = {name: row[name] for name in ("list_id", "text_sha256", "seen_version")} | {"reason": "checked"}
    own = await client.post("/api/list-proposals/approve", json=said)
    assert (own.status_code, own.json()["code"]) == (422, "own_proposal")
    async with client_of(create_api(on_bus)) as approver:
        approver.cookies.set("databus_console", signed({"sid": sid}, on_bus.secret))
        assert (await approver.post("/api/lists/waits/import", content=FILE)).status_code == 403
        wrong = await approver.post("/api/list-proposals/approve", json={**said, "text_sha256": "0" * 64})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "other_text"), wrong.text
        done = await approver.post("/api/list-proposals/approve", json=said)
        assert (done.status_code, done.json()["verdict"]) == (200, "approve"), done.text
        assert len(plates(bus, "waits")) == 10
        change = {"put": [{"plate": "沪B12345"}], "reason": "new"}
        assert (await client.post("/api/lists/waits/lines", json=change)).status_code == 202
        [row] = (await client.get("/api/list-proposals")).json()["rows"]
        assert (row["op"], row["put"], row["in_force"]["lines"]) == ("change", ["沪B12345"], 10)
        no = {"list_id": "waits", "text_sha256": row["text_sha256"], "reason": "no such car"}
        assert (await approver.post("/api/list-proposals/reject", json=no)).status_code == 200
    assert (await client.post("/api/list-proposals/withdraw", json={"list_id": "waits"})).status_code == 404
    assert (await client.get("/api/list-proposals")).json()["rows"] == []
    assert len(plates(bus, "waits")) == 10
