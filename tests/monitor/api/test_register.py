"""The register behind the API: a table of places, a file that is tried and then applied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from console_services import client_of, make_services, signed
from console_traffic import make_topics
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.register import Checkpoint, Device, District, Register
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.register import MAX_FILE_BYTES
from monitor.api.register_rows import KINDS_OF_PLACE, place_rows

SMALL = Register(
    districts=(District(district_id="d1", name="西湖", name_en="West Lake"),),
    checkpoints=(
        Checkpoint(checkpoint_id="c1", name="北口", name_en="North Gate", district_id="d1",
                   latitude=30.2, longitude=120.1),
    ),
    devices=(Device(camera_ip="10.0.0.1", checkpoint_id="c1", kind="vehicle"),
             Device(camera_ip="10.0.0.2", checkpoint_id="gone", kind="face")),
)  # fmt: skip
GEOJSON = b"""{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": null,
 "properties": {"kind": "district", "id": "new", "name": "\xe6\x96\xb0", "name_en": "New"}}]}"""


def test_a_table_of_places_is_filtered_by_kind_and_text() -> None:
    """By id, name in either language, and address; a device whose checkpoint is missing is there."""
    assert [row["entry"] for row in place_rows(SMALL)] == ["10.0.0.1", "10.0.0.2", "c1", "d1"]
    assert [row["entry"] for row in place_rows(SMALL, "checkpoint")] == ["c1"]
    assert [row["entry"] for row in place_rows(SMALL, text=" NORTH ")] == ["10.0.0.1", "c1"]
    (lost,) = place_rows(SMALL, "device", "gone")
    assert (lost["entry"], lost["latitude"]) == ("10.0.0.2", None)


@given(st.sampled_from(("", *KINDS_OF_PLACE)), st.text(max_size=5))
def test_no_filter_invents_a_place(kind: str, text: str) -> None:
    """Whatever somebody types: rows of the whole table, in its order."""
    every, found = place_rows(SMALL), place_rows(SMALL, kind, text)
    assert [row for row in every if row in found] == found


async def test_places_come_page_by_page(as_role: Any) -> None:
    """Each once; a cursor of nobody's is refused."""
    client, found, cursor = as_role(AccountRole.VIEWER), [], ""
    while True:
        page = (await client.get("/api/places", params={"limit": 50, "cursor": cursor})).json()
        found += [row["key"] for row in page["rows"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert len(found) == len(set(found)) > 50
    for wrong in ({"cursor": "x"}, {"cursor": "-1"}, {"kind": "road"}):
        assert (await client.get("/api/places", params=wrong)).status_code == 422


@pytest.mark.parametrize("role", [r for r in AccountRole if r is not AccountRole.OPERATOR])
async def test_only_an_operator_changes_the_register(as_role: Any, role: AccountRole) -> None:
    """Not even tries it."""
    answer = await as_role(role).post("/api/register?format=csv&dry_run=true", content=b"")
    assert answer.status_code == 403


async def test_without_a_bus_nothing_is_changed_and_it_is_said(as_role: Any) -> None:
    """What stands on the topic is not known: a file could not be compared with it."""
    client = as_role(AccountRole.OPERATOR)
    answer = await client.post("/api/register?format=geojson", content=GEOJSON)
    assert answer.status_code == 503
    large = await client.post("/api/register?format=csv", content=b"x" * (MAX_FILE_BYTES + 1))
    assert large.status_code == 413
    assert (await client.post("/api/register?format=xls", content=b"")).status_code == 422


@pytest.fixture
async def operator(
    broker: RunningBroker, data_path: Path, filled: tuple[Path, int]
) -> AsyncIterator[httpx.AsyncClient]:
    """A console on a real bus whose register topic is empty."""
    make_topics(broker.bootstrap)
    services = make_services(data_path, filled[1], broker.bootstrap)
    services.register.start()
    assert await asyncio.to_thread(services.register.wait_until_read, 30)
    principal = ConsolePrincipal(name="li", roles=frozenset({AccountRole.OPERATOR}))
    async with client_of(create_api(services)) as client:
        sid = services.sessions.open(principal, guest=True)
        client.cookies.set("databus_console", signed({"sid": sid}, services.secret))
        yield client
    await asyncio.to_thread(services.register.close)
    services.records.close()
    services.alarms.close()
    services.account_writes.close()
    services.account_store.close()


@pytest.mark.slow  # a broker process
async def test_a_file_is_tried_then_applied_and_a_bad_one_tells_every_line(
    operator: httpx.AsyncClient,
) -> None:
    """The first change brings the site's own file along; what is applied is what is shown; the same
    file again changes nothing."""
    before = (await operator.get("/api/register")).json()
    address = "/api/register?format=geojson"
    tried = (await operator.post(address + "&dry_run=true", content=GEOJSON)).json()
    assert (tried["written"], tried["faults"]) == (False, [])
    assert tried["changes"] == [{"change": "add", "kind": "district", "entry": "new"}]
    assert tried["change_count"] == 1
    assert (await operator.get("/api/register")).json() == before

    applied = (await operator.post(address, content=GEOJSON)).json()
    assert applied == {**tried, "written": True}
    now = (await operator.get("/api/register")).json()
    assert {d["district_id"] for d in now["districts"]} == {
        d["district_id"] for d in before["districts"]
    } | {"new"}
    assert len(now["devices"]) == len(before["devices"])
    again = (await operator.post(address, content=GEOJSON)).json()
    assert (again["change_count"], again["written"]) == (0, False)

    bad = b"kind,id\ndevice,10.9.9.9\nplanet,mars\n"
    refused = await operator.post("/api/register?format=csv", content=bad)
    assert refused.status_code == 422
    told = refused.json()
    assert told["written"] is False
    assert {fault["line"] for fault in told["faults"]} >= {3}
    assert all(fault["text"] and fault["text_zh"] for fault in told["faults"])
    assert (await operator.get("/api/register")).json() == now
