"""Alarms, incidents, register, pictures, status, metrics; the watch list without a broker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bus.notify.acknowledgements import Acknowledgements
from bus.wall_clock import now_ms
from deploy.state_file import StateFile
from monitor.accounts.roles import AccountRole
from monitor.api.services import ConsoleServices
from tests.ingest.pictures.hostile_names import HOSTILE_NAMES


async def test_alarms_are_paged_and_filtered(as_role: Any) -> None:
    """With place, picture and how fast they were."""
    client = as_role()
    first = (await client.get("/api/alarms?limit=20")).json()
    second = (
        await client.get("/api/alarms", params={"limit": 20, "cursor": first["cursor"]})
    ).json()
    rows = first["rows"] + second["rows"]
    assert len({r["alarm_id"] for r in rows}) == 30
    assert second["cursor"] == ""
    critical = (await client.get("/api/alarms?severity=critical")).json()["rows"]
    assert [r for r in rows if r["severity"] == "critical"] == critical
    assert rows[0]["picture"].startswith("/pictures/")
    assert rows[0]["latitude"] > 30
    one = (await client.get(f"/api/alarms/{rows[3]['alarm_id']}")).json()
    assert one == rows[3]
    assert (await client.get("/api/alarms/none")).status_code == 404


async def test_incidents_have_a_beginning_and_an_end(as_role: Any) -> None:
    """Open ones alone on request."""
    rows = (await as_role().get("/api/incidents?open_only=true")).json()["rows"]
    assert [(r["incident_id"], r["closed_at"]) for r in rows] == [("i-1", "")]


async def test_the_register_follows_its_file_and_survives_a_broken_one(
    as_role: Any, services: ConsoleServices
) -> None:
    """A good register is never replaced by a bad one."""
    client, path = as_role(), services.site.data_path / "register.json"
    assert len((await client.get("/api/register")).json()["checkpoints"]) == 36
    path.write_text("{")
    assert len((await client.get("/api/register")).json()["checkpoints"]) == 36
    path.write_text('{"site": "other"}')
    assert (await client.get("/api/register")).json()["site"] == "other"


async def test_pictures_come_from_the_picture_store_only(as_role: Any, services: ConsoleServices) -> None:
    """No path leads out of it, and what is no picture is no page either."""
    client = as_role()
    good = await client.get("/pictures/car-1.png")
    assert (good.status_code, good.headers["content-type"]) == (200, "image/png")
    (services.site.data_path / "pictures" / "page.html").write_text("<script>")
    page = await client.get("/pictures/page.html")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in HOSTILE_NAMES:
        assert (await client.get(f"/pictures/{path}")).status_code == 404, path


async def test_the_status_says_what_is_away(as_role: Any) -> None:
    """Here the bus: nothing listens at the address of these tests."""
    status = (await as_role().get("/api/status")).json()
    assert status["away"]["bus"]
    reply = await as_role().get("/metrics")
    assert 'databus_console_reachable{part="bus"} 0.0' in reply.text


async def test_the_status_lists_every_process_of_the_product(as_role: Any, data_path: Path) -> None:
    """As `./databus status` does, by the same reader; none where no supervisor is."""
    assert (await as_role().get("/api/status")).json()["processes"] == []
    state = StateFile(data_path, {})
    state.acquire()
    role = {"state": "restarting", "pid": None, "restarts": 3, "since_ms": 5}
    state.write({"streams": role})
    found = (await as_role().get("/api/status")).json()["processes"]
    state.release()
    assert [one["role"] for one in found] == ["supervisor", "streams"]
    assert found[0]["pid"] == os.getpid()
    assert found[1] == {"role": "streams", **role}


async def test_the_pulse_is_for_everybody(stranger: Any) -> None:
    """A supervisor has no account."""
    assert (await stranger.get("/healthz")).json() == {"status": "ok"}


RULE = b'{"name": "x", "match": {"plate_number": ["\xe6\xb5\x99AWL999"]}}'


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"[]", 422, None),
        (b'{"name": "x"}', 422, None),
        (b'{"name": "x", "match": {}, "colour": 1}', 422, None),
        (b'{"name": "x", "match": {}}', 422, "match"),
        (b'{"name": "", "match": {"plate_number": ["A"]}}', 422, "name"),
        (b'{"name": "x", "match": {"shoe_size": ["A"]}}', 422, "shoe_size"),
        (b'{"name": "x", "match": {"plate_number": [" "]}}', 422, "plate_number"),
        (
            b'{"name": "x", "match": {"plate_number": ["A"]}, "valid_until_ms": 5}',
            422,
            "valid_until_ms",
        ),
        (b"x" * 70_000, 413, None),
    ],
)
async def test_a_rule_that_cannot_be_meant_is_refused_with_its_field(
    as_role: Any, body: bytes, status: int, field: str | None
) -> None:
    """Before anything is sent."""
    reply = await as_role().post("/api/watch", content=body)
    assert reply.status_code == status
    assert reply.json().get("field") == field


async def test_a_rule_in_force_nowhere_cannot_be_removed(as_role: Any) -> None:
    """404, and nothing is sent."""
    assert (await as_role().delete("/api/watch/w-1")).status_code == 404


async def test_the_cluster_is_away_and_says_so(as_role: Any, services: ConsoleServices) -> None:
    """The answer has the reason instead of an invented state."""
    await services.poller.poll()
    told = (await as_role().get("/api/cluster")).json()
    assert told["picture"] is None
    assert told["events"] == []
    assert "127.0.0.1:1" in told["away"]
    metadata = (await as_role().get("/api/metadata")).json()
    assert metadata["tree"] == {}
    assert "127.0.0.1:1" in metadata["fault"]


async def test_an_operator_acknowledges_and_a_viewer_may_not(
    as_role: Any, services: ConsoleServices
) -> None:
    """Whoever was first is told to the second."""
    path = "/api/acknowledgements/r:1/2"
    assert (await as_role(AccountRole.VIEWER).post(path)).status_code == 403
    done = await as_role(AccountRole.OPERATOR).post(path)
    assert (done.status_code, done.json()) == (201, {"id": "r:1/2", "acknowledged_by": "guest"})
    assert Acknowledgements(services.site).add("r:1/2", "late", now_ms()) == "guest"
