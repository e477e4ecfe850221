"""Packages of evidence over the API: of an alarm, a record, the way of a plate."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from ingest.store.port import PageRequest, Query
from monitor.accounts.roles import AccountRole
from monitor.api import evidence
from monitor.api.pool import QueryUnavailable
from monitor.api.services import ConsoleServices


def manifest_of(reply: Any) -> dict[str, Any]:
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/zip"
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert "no-store" in reply.headers["cache-control"]
    with zipfile.ZipFile(io.BytesIO(reply.content)) as packed:
        assert packed.testzip() is None
        found: dict[str, Any] = json.loads(packed.read("manifest.json"))
        assert {one["name"] for one in found["files"]} == set(packed.namelist()) - {"manifest.json", "SHA256SUMS"}
    return found


async def test_of_an_alarm_with_its_rule_and_pictures(as_role: Any) -> None:
    client = as_role()
    alarm = (await client.get("/api/alarms?limit=1")).json()["rows"][0]
    found = manifest_of(await client.get(f"/api/evidence/alarms/{alarm['alarm_id']}?language=en"))
    assert found["about"] == {"alarm": alarm["alarm_id"]}
    assert found["alarm"]["rule_id"] == alarm["rule_id"]
    assert [one["record_id"] for one in found["records"]] == [alarm["record_id"]]
    assert found["made_by"] == "guest"
    assert (await client.get("/api/evidence/alarms/none")).status_code == 404


async def test_of_an_alarm_while_the_store_of_records_is_away(
    as_role: Any, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own copy."""
    client = as_role()
    alarm = (await client.get("/api/alarms?limit=1")).json()["rows"][0]

    async def away(*_: object) -> None:
        raise QueryUnavailable("records: away")

    monkeypatch.setattr(type(services.records), "run", away_for(services, away))
    found = manifest_of(await client.get(f"/api/evidence/alarms/{alarm['alarm_id']}"))
    assert found["records"][0]["stored_at"] == ""


def away_for(services: ConsoleServices, away: Any) -> Any:
    run = type(services.records).run

    async def chosen(pool: Any, *given: Any, **more: Any) -> Any:
        return await (away() if pool is services.records else run(pool, *given, **more))

    return chosen


async def test_of_a_plate_in_the_order_in_which_it_was_seen(
    as_role: Any, services: ConsoleServices
) -> None:
    client = as_role()
    rows, _ = await services.records.run(
        lambda r: r.query(Query(kind="vehicle"), PageRequest(limit=50))
    )
    plate = next(row.plate_key for row in rows if row.plate_key)
    found = manifest_of(await client.get("/api/evidence/records", params={"plate": plate}))
    times = [one["captured_at"] for one in found["records"]]
    assert times
    assert times == sorted(times)
    record = found["records"][0]["record_id"]
    one = manifest_of(await client.get("/api/evidence/records", params={"record": record}))
    assert [found["record_id"] for found in one["records"]] == [record]


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({}, 422),
        ({"plate": "浙A1", "record": "r"}, 422),
        ({"plate": "沪Z99999"}, 404),
        ({"record": "none"}, 404),
        ({"plate": "浙A1", "from": "yesterday"}, 422),
        ({"plate": "浙A1", "language": "fr"}, 422),
        ({"plates": "浙A1"}, 422),
    ],
)
async def test_what_cannot_be_packed_is_said(
    as_role: Any, question: dict[str, str], status: int
) -> None:
    reply = await as_role().get("/api/evidence/records", params=question)
    assert reply.status_code == status
    assert reply.json()


async def test_more_than_a_package_holds_is_refused_and_never_cut_off(
    as_role: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_RECORDS", 3)
    reply = await as_role().get("/api/evidence/records", params={"plate": "*"})
    assert reply.status_code == 422
    assert "choose a shorter time" in reply.text


async def test_who_may_take_nothing_out_of_the_house_gets_none(as_role: Any) -> None:
    client = as_role(AccountRole.VIEWER)
    assert (await client.get("/api/evidence/records?plate=x")).status_code == 403
    assert (await client.get("/api/evidence/alarms/x")).status_code == 403
