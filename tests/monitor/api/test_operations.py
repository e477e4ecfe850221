"""Alarms, incidents, register, pictures, status, metrics; the watch list without a broker."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from alarm.cli import watch_commands
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarms import Incident
from bus.contracts.commands import CommandAnswer, WatchCommand
from bus.domain.expressions.to_text import to_text
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.notice_plan import NoticePlan
from bus.runtime.wall_clock import now_ms
from deploy.supervisor.state_file import StateFile
from ingest.store.port import PageRequest
from monitor.accounts.roles import AccountRole
from monitor.api.incidents import incident_page
from monitor.api.pool import QueryUnavailable, ReaderPool
from monitor.api.services import ConsoleServices
from monitor.watch.incident_file import IncidentFile
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
    assert {**one, **rows[3]} == one
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
    assert found[1] == {"role": "streams", **role, "last_exit": None}


async def test_the_pulse_is_for_everybody(stranger: Any) -> None:
    """A supervisor has no account."""
    assert (await stranger.get("/healthz")).json() == {"status": "ok"}


RULE = b'{"name": "x", "match": {"plate_number": ["\xe6\xb5\x99AWL999"]}}'


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"[]", 422, None),
        (b'{"name": "x"}', 422, "match"),
        (b'{"name": "x", "where": "lane_id = 1 and"}', 422, "where"),
        (b'{"name": "x", "where": {"type": "in", "attribute": "lane", "values": ["1"]}}', 422, "where"),
        (b'{"name": "x", "where": {"type": "fuzzy"}}', 422, None),
        (b'{"name": "x", "where": "plate_number resembles A1?345"}', 422, "where"),
        (b'{"name": "x", "where": {"type": "resembles", "attribute": "lane_id", "plate": "A12345"}}', 422, "where"),
        (b'{"name": "x", "where": ' + b'{"type": "not", "part": ' * 2_000 + b"1" + b"}" * 2_001, 400, None),
        (b'{"name": "x", "where": "' + b"(" * 1_000 + b'"}', 422, "where"),
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


RULES: list[tuple[dict[str, list[str]], str]] = [
    ({"plate_number": ["AB-102-CD"]}, ""), ({"plate_number": ["浙A·1\u200b2345", "浙A-12345"]}, ""), ({"vehicle_color": ["白色"]}, ""),
    ({"plate_number": ["浙A*123"]}, ""), ({"plate_number": ["浙A12345", "浙A?2345"]}, ""),
    ({"plate_number": ["浙A*"]}, "at least 3 letters"), ({"plate_number": ["浙A12345", "*12?"]}, "at least 3 letters"),
    ({"plate_number": ["无车牌"]}, "no record would match"), ({"plate_number": ["x" * 17]}, "no record would match"),
    ({"plate_number": ["\u200b"]}, "no record would match"), ({"vehicle_color": ["识别异常"]}, "no record would match"),
    ({"vehicle_color": ["x" * 101]}, "100 characters"), ({"plate_confidence": ["9"]}, "not an attribute"),
    ({"shoe_size": ["9"]}, "not an attribute"), ({"vehicle_brand": [str(n) for n in range(51)]}, "1 to 50 values"),
]  # fmt: skip


ACCEPTED = CommandAnswer(command_id="c", topic="t", offset=0, key="r", state="accepted")
WHERE: list[tuple[str, int, str]] = [
    ('plate_number like "浙A*123" and not vehicle_color in (白色, 黑色) and speed_kmh > 80', 0, ""),
    ("lane_id = 1 and", 16, "the end is not expected here"), ("colour = 1", 1, "is no attribute"),
    ('plate_number resembles "浙A8D345"', 0, ""), ("plate_number resembles 浙A8D345 up to 3", 38, "is 0.5 to 2.0"),
    ('vehicle_brand matches "(a"', 23, "no regular expression of RE2"),
    ("speed_kmh > 80 or not lane_id = 1", 0, "warning: no index serves"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "column", "why"), WHERE)
async def test_api_and_command_line_read_the_same_expressions_and_mark_the_same_character(
    as_role: Any, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch, where: str, column: int, why: str
) -> None:
    """A rule that no index serves is taken and warned of."""
    sent: list[WatchCommand] = []
    accepted: list[WatchCommand] = []

    def request(_: object, command: WatchCommand, *, as_json: bool) -> CommandAnswer:
        sent.append(command)
        return ACCEPTED

    async def send(command: WatchCommand) -> CommandAnswer:
        accepted.append(command)
        return ACCEPTED

    monkeypatch.setattr("alarm.cli.request_answer", request)
    monkeypatch.setattr(services.commands, "send", send)
    app = typer.Typer()
    app.add_typer(watch_commands(), name="watch")
    settings = SimpleNamespace(site=services.site)
    by_hand = CliRunner().invoke(app, ["watch", "add", "--where", where], terminal_width=500, obj=settings)
    reply = await as_role().post("/api/watch", json={"name": "n", "where": where})
    if column:
        assert (by_hand.exit_code, reply.status_code, sent, accepted) == (2, 422, [], [])
        assert (reply.json()["field"], reply.json()["column"]) == ("where", column)
        assert why in reply.json()["error"]
        assert f"{' ' * (column - 1)}^" in by_hand.output
        return
    assert (by_hand.exit_code, reply.status_code) == (0, 201), by_hand.output
    assert why in by_hand.output
    assert bool(reply.json()["warnings"]) is bool(why)
    assert reply.json()["where_text"] == to_text(sent[0].where) == where
    tree = reply.json()["where"]
    again = await as_role().post("/api/watch", json={"name": "n", "where": tree})
    assert again.json()["where"] == tree
    assert sent[0].where == accepted[0].where == accepted[1].where


@pytest.mark.parametrize(("match", "why"), RULES)
async def test_api_and_command_line_refuse_the_same_rules_and_say_why(
    services: ConsoleServices, as_role: Any, monkeypatch: pytest.MonkeyPatch, match: dict[str, list[str]], why: str
) -> None:
    """Regression: the API took what the command line refused. What both take is sent: here to
    nobody."""
    sent: list[WatchCommand] = []

    def accepted(_: object, command: WatchCommand, *, as_json: bool) -> CommandAnswer:
        sent.append(command)
        return ACCEPTED

    monkeypatch.setattr("alarm.cli.request_answer", accepted)
    monkeypatch.setattr("bus.client.kafka.command_client.DELIVERY_S", 0.2)
    app = typer.Typer()
    app.add_typer(watch_commands(), name="watch")
    words = [f"--match={name}={','.join(values)}" for name, values in match.items()]
    settings = SimpleNamespace(site=services.site)
    by_hand = CliRunner().invoke(app, ["watch", "add", *words], terminal_width=500, obj=settings)
    reply = await as_role().post("/api/watch", json={"name": "n", "match": match})
    if why:
        assert (by_hand.exit_code, reply.status_code, sent) == (2, 422, [])
        assert reply.json()["field"] in match
        assert why in reply.json()["error"]
        shown = "".join(sign for sign in by_hand.output if sign not in "│\n ")
        assert why.replace(" ", "") in shown
    else:
        assert (by_hand.exit_code, reply.status_code) == (0, 503), by_hand.output  # no broker
        assert sent[0].match == match


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
    assert (await as_role().get("/api/cleaner")).json() == {"brokers": []}
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


def of_the_watch(name: str, state: str, opened_at_ms: int) -> Incident:
    closed_ms = opened_at_ms + 5 if state == "closed" else 0
    return Incident(incident_id=name, kind="away", state=state, opened_at_ms=opened_at_ms,  # type: ignore[arg-type]
                    closed_at_ms=closed_ms, notified_by="watch")  # fmt: skip


async def test_what_the_watch_found_is_shown_while_the_bus_is_away_each_once(
    as_role: Any, services: ConsoleServices
) -> None:
    """It was in neither the store nor on the topic: that the broker is away was shown nowhere."""
    opened_ms = now_ms() + 1_000
    file = IncidentFile(services.site.data_path / "watch" / "watch.db", NoticePlan())
    file.add([(of_the_watch("away:broker:1", "open", opened_ms), [])], 1)
    file.add([(of_the_watch("away:edge:1", "open", opened_ms + 1), [])], 1)
    file.add([(of_the_watch("away:edge:1", "closed", opened_ms + 1), [])], 1)
    file.add([(of_the_watch("i-1", "closed", 1), [])], 1)  # the store has its opening
    client = as_role()
    rows = (await client.get("/api/incidents?limit=500")).json()["rows"]
    names = [row["incident_id"] for row in rows]
    assert len(names) == len(set(names))
    states = {row["incident_id"]: row["state"] for row in rows}
    assert (states["away:broker:1"], states["away:edge:1"], states["i-1"]) == (
        "open", "closed", "closed",
    )  # fmt: skip
    still = (await client.get("/api/incidents?open_only=true")).json()["rows"]
    assert [row["incident_id"] for row in still] == ["away:broker:1"]
    file.close()


async def test_pages_of_incidents_have_each_once_though_the_file_of_the_watch_has_them_too(
    services: ConsoleServices,
) -> None:
    """What lies further back in the store comes with its page."""
    folder = services.site.data_path
    file, known = IncidentFile(folder / "watch" / "watch.db", NoticePlan()), range(1, 8)
    found = [of_the_watch(f"away:x:{n}", "open", n) for n in known]
    file.add([(one, []) for one in found], 1)
    file.add([(of_the_watch("away:new:9", "open", 9), [])], 1)
    store = OperationsStore(folder / "paged.db")
    store.apply(BatchChanges(incidents=found))
    pool = ReaderPool("operations", lambda: OperationsReader(folder / "paged.db"), threads=1)
    paged = dataclasses.replace(services, alarms=pool)
    seen, cursor = [], ""
    for _ in range(10):
        page = await incident_page(paged, PageRequest(limit=2, cursor=cursor))
        seen += [one.incident_id for one in page.incidents]
        cursor = page.cursor
        if not cursor:
            break
    assert seen == ["away:new:9", *(f"away:x:{n}" for n in reversed(known))]
    pool.close()
    store.close()
    file.close()


async def test_incidents_are_shown_while_the_operations_store_is_away(
    services: ConsoleServices,
) -> None:
    """With the reason; a further page cannot be had."""
    file = IncidentFile(services.site.data_path / "watch" / "watch.db", NoticePlan())
    file.add([(of_the_watch("away:operations:1", "open", 5), [])], 1)
    away = dataclasses.replace(services, alarms=ReaderPool("operations", no_store, threads=1))
    page = await incident_page(away, PageRequest(limit=10))
    assert [one.incident_id for one in page.incidents] == ["away:operations:1"]
    assert "no store here" in page.away
    with pytest.raises(QueryUnavailable):
        await incident_page(away, PageRequest(limit=10, cursor="5"))
    away.alarms.close()
    file.close()


def no_store() -> Any:
    raise OSError("no store here")


async def test_who_has_an_alarm_or_an_incident_in_hand_is_said(
    as_role: Any, services: ConsoleServices
) -> None:
    """It was noted, and shown nowhere."""
    client = as_role()
    alarm = (await client.get("/api/alarms?limit=1")).json()["rows"][0]["alarm_id"]
    for name in (alarm, "i-1"):
        services.acknowledgements.add(name, "Wang", now_ms())
    alarms = (await client.get("/api/alarms?limit=1")).json()["rows"]
    incidents = (await client.get("/api/incidents")).json()["rows"]
    one = (await client.get(f"/api/alarms/{alarm}")).json()
    found = {row["incident_id"]: row["acknowledged_by"] for row in incidents}
    assert (alarms[0]["acknowledged_by"], one["acknowledged_by"]) == ("Wang", "Wang")
    assert found["i-1"] == "Wang"
    assert set(found.values()) <= {"Wang", ""}
