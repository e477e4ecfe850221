"""Proposals over the API of a site that asks for approval: read beside the text in force, settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from console_services import client_of, make_services, signed
from console_traffic import make_topics

from bus.domain.policy import PolicySettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-bus")]
RULE = {
    "name": "n", "match": {"plate_number": ["浙A12345"]}, "reason": "stolen", "case": "K-1", "rule_id": "p1",
}  # fmt: skip


@pytest.fixture(scope="module")
def address(broker: RunningBroker) -> Iterator[str]:
    make_topics(broker.bootstrap)
    with running_decider(broker.bootstrap, PolicySettings()):
        yield broker.bootstrap


@pytest.fixture
async def services(address: str, data_path: Path, filled: tuple[Path, int]) -> AsyncIterator[ConsoleServices]:
    made = make_services(data_path, filled[1], address, PolicySettings())
    hub = asyncio.create_task(made.hub.run())
    yield made
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)
    await asyncio.to_thread(made.commands.close)


@pytest.fixture
async def log_in(services: ConsoleServices) -> AsyncIterator[Any]:
    """A client of somebody with these roles."""
    clients: list[httpx.AsyncClient] = []
    app = create_api(services)

    def made(name: str, *roles: AccountRole) -> httpx.AsyncClient:
        who = ConsolePrincipal(name=name, roles=frozenset(roles))
        client = client_of(app)
        client.cookies.set("databus_console", signed({"sid": services.sessions.open(who, guest=True)}, services.secret))
        clients.append(client)
        return client

    yield made
    for client in clients:
        await client.aclose()


async def waiting(client: httpx.AsyncClient, rule_id: str, *, until: bool = True) -> dict[str, Any]:
    """The row of a rule's proposal, once the console has it, or has it no longer."""
    async with asyncio.timeout(30):
        while True:
            rows = {row["rule_id"]: row for row in (await client.get("/api/proposals")).json()["rows"]}
            if (rule_id in rows) == until:
                return dict(rows.get(rule_id, {}))
            await asyncio.sleep(0.02)


def verdict(row: dict[str, Any], **more: object) -> dict[str, object]:
    named = {name: row[name] for name in ("rule_id", "text_sha256", "seen_version")}
    return {**named, "reason": "checked", **more}


async def test_a_rule_is_proposed_by_one_and_approved_by_another(
    log_in: Any, services: ConsoleServices
) -> None:
    li, zhao = log_in("li", AccountRole.OPERATOR, AccountRole.APPROVER), log_in("zhao", AccountRole.APPROVER)
    proposed = await li.post("/api/watch", json=RULE)
    assert (proposed.status_code, proposed.json()["waits"]) == (202, True)
    row = await waiting(zhao, "p1")
    assert (row["proposed_by"].partition(" ")[0], row["in_force"], row["changes"], row["case"]) == (
        "li", None, [], "K-1",
    )  # fmt: skip
    own = await li.post("/api/proposals/approve", json=verdict(row))
    assert (own.status_code, own.json()["code"], own.json()["field"]) == (422, "own_proposal", "account")
    other = await zhao.post("/api/proposals/approve", json=verdict(row, text_sha256="0" * 64))
    assert (other.status_code, other.json()["code"]) == (422, "other_text")
    stale = await zhao.post("/api/proposals/approve", json=verdict(row, seen_version=7))
    assert (stale.status_code, stale.json()["code"]) == (409, "stale")
    done = await zhao.post("/api/proposals/approve", json=verdict(row))
    assert (done.status_code, done.json()["verdict"]) == (200, "approve")
    assert await waiting(zhao, "p1", until=False) == {}
    again = await zhao.post("/api/proposals/approve", json=verdict(row, seen_version=-1))
    assert (again.status_code, again.json()["code"]) == (404, "no_proposal")
    [rule] = [one for one in (await li.get("/api/watch")).json()["rows"] if one["rule_id"] == "p1"]
    assert (rule["approved_by"].partition(" ")[0], rule["account"].partition(" ")[0]) == ("zhao", "li")


async def test_a_change_names_what_differs_and_is_rejected_or_withdrawn(log_in: Any) -> None:
    li, zhao = log_in("li", AccountRole.OPERATOR), log_in("zhao", AccountRole.APPROVER)
    rule = {**RULE, "rule_id": "p2"}
    await li.post("/api/watch", json=rule)
    await zhao.post("/api/proposals/approve", json=verdict(await waiting(zhao, "p2")))
    await waiting(zhao, "p2", until=False)
    await li.post("/api/watch", json={**rule, "name": "m", "severity": "critical"})
    row = await waiting(zhao, "p2")
    assert (row["changes"], row["in_force"]["name"], row["name"]) == (["name", "severity"], "n", "m")
    silent = await zhao.post("/api/proposals/reject", json=verdict(row, reason=""))
    assert (silent.status_code, silent.json()["field"]) == (422, "reason")
    assert (await zhao.post("/api/proposals/reject", json=verdict(row))).status_code == 200
    await waiting(zhao, "p2", until=False)
    await li.post("/api/watch", json={**rule, "name": "third"})
    await waiting(zhao, "p2")
    assert (await li.post("/api/proposals/withdraw", json={"rule_id": "p2"})).status_code == 200
    await waiting(zhao, "p2", until=False)
    names = {one["rule_id"]: one["name"] for one in (await li.get("/api/watch")).json()["rows"]}
    assert names["p2"] == "n"


@pytest.mark.parametrize(("role", "path"), [
    (AccountRole.OPERATOR, "approve"), (AccountRole.OPERATOR, "reject"), (AccountRole.VIEWER, "approve"),
    (AccountRole.OPERATIONS, "approve"), (AccountRole.APPROVER, "withdraw"),
])  # fmt: skip
async def test_who_has_not_the_role_is_refused_before_anything_is_sent(
    log_in: Any, role: AccountRole, path: str
) -> None:
    reply = await log_in("x", role).post(f"/api/proposals/{path}", json={"rule_id": "p1"})
    assert reply.status_code == 403


@pytest.mark.parametrize(("body", "status"), [
    (b"", 400), (b"{", 400), (b"[]", 422), (b'{"rule_id": 5}', 422), (b'{"rule_id": "x", "more": 1}', 422),
    (b"[" * 9_000, 422), (b'{"rule_id": "' + b"x" * 20_000 + b'"}', 413),
])  # fmt: skip
async def test_what_is_no_verdict_is_refused(log_in: Any, body: bytes, status: int) -> None:
    reply = await log_in("zhao", AccountRole.APPROVER).post("/api/proposals/approve", content=body)
    assert reply.status_code == status, reply.text


@pytest.mark.parametrize(("changes", "field"), [
    ({"reason": ""}, "reason"), ({"case": " "}, "case"), ({"emergency_hours": 100}, "emergency_hours"),
    ({"rule_id": "a~b"}, "rule_id"),
])  # fmt: skip
async def test_a_rule_without_what_the_site_asks_for_names_the_field(
    log_in: Any, changes: dict[str, object], field: str
) -> None:
    reply = await log_in("li", AccountRole.OPERATOR).post("/api/watch", json={**RULE, **changes})
    assert (reply.status_code, reply.json()["field"]) == (422, field)
