"""Accounts over HTTP: one's own password, and everybody's accounts for the administrator."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from console_services import client_of
from fastapi import FastAPI

from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.api.services import ConsoleServices

OLD, NEW = "correct horse", "another horse"
FOR_ADMINISTRATORS = [
    ("GET", "/api/accounts", None),
    ("POST", "/api/accounts", {"name": "zhao", "password": NEW, "roles": ["viewer"]}),
    ("PUT", "/api/accounts/wang/roles", {"roles": ["operations"]}),
    ("PUT", "/api/accounts/wang/unit", {"unit": "north", "districts": ["d1"]}),
    ("PUT", "/api/accounts/wang/password", {"password": NEW}),
    ("DELETE", "/api/accounts/wang/lock", None),
    ("DELETE", "/api/accounts/wang", None),
]


@pytest.fixture
async def log_in(app: FastAPI, services: ConsoleServices) -> AsyncIterator[Any]:
    """Browsers of people with accounts: li looks, wang operates, sun is the administrator."""
    store = AccountStore(services.site.data_path)
    for name, role in (("li", "viewer"), ("wang", "operator"), ("sun", "operations")):
        store.add(name, OLD, [AccountRole(role)])
    clients = []

    async def enter(name: str, password: str = OLD) -> httpx.AsyncClient:
        client = client_of(app)
        clients.append(client)
        reply = await client.post("/auth/login", data={"name": name, "password": password})
        assert reply.status_code == 303, reply.text
        return client

    yield enter
    for client in clients:
        await client.aclose()


async def change(client: httpx.AsyncClient, old: str, new: str) -> httpx.Response:
    return await client.post("/api/account/password", json={"old": old, "new": new})


async def rows(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in (await client.get("/api/accounts")).json()["rows"]}


@pytest.mark.parametrize("name", ["li", "wang", "sun"])
async def test_everybody_changes_his_own_password_and_stays(log_in: Any, name: str) -> None:
    """His other sessions end, this one goes on; the old password is worth nothing."""
    mine, other = await log_in(name), await log_in(name)
    assert (await mine.get("/api/account")).json()["name"] == name
    assert (await change(mine, OLD, NEW)).json() == {"changed": True}
    assert (await mine.get("/api/account")).status_code == 200
    assert (await other.get("/api/account")).status_code == 401
    reply = await other.post("/auth/login", data={"name": name, "password": OLD})
    assert reply.status_code == 401
    assert (await (await log_in(name, NEW)).get("/api/account")).status_code == 200
    assert (await change(mine, NEW, OLD)).status_code == 200  # and once more from the same one


async def test_a_wrong_old_password_is_a_failed_log_in(
    log_in: Any, services: ConsoleServices, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and after so many of them the account is locked for this browser."""
    mine = await log_in("li")
    for _ in range(services.console.failed_logins):
        reply = await change(mine, "wrong horse", NEW)
        assert (reply.status_code, reply.json()["fault"]) == (422, "old")
    assert "wrong old password of li" in caplog.text
    reply = await change(mine, OLD, NEW)
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 1
    assert (await rows(await log_in("sun")))["li"]["locked_for_s"] > 0
    assert "horse" not in caplog.text


@pytest.mark.parametrize("new", ["", "short", "x" * 257])
async def test_a_weak_new_password_changes_nothing(log_in: Any, new: str) -> None:
    """The old one still opens."""
    mine = await log_in("li")
    reply = await change(mine, OLD, new)
    assert (reply.status_code, reply.json()["fault"]) == (422, "weak")
    await log_in("li")


async def test_a_guest_has_no_password(as_role: Any, services: ConsoleServices) -> None:
    """Nor that of an account of the same name."""
    AccountStore(services.site.data_path).add("guest", OLD, [AccountRole.VIEWER])
    guest = as_role(AccountRole.VIEWER)
    assert (await guest.get("/api/account")).json()["guest"]
    assert (await change(guest, OLD, NEW)).json()["fault"] == "guest"


@pytest.mark.parametrize("role", [r for r in AccountRole if r != AccountRole.OPERATIONS])
@pytest.mark.parametrize(("method", "path", "body"), FOR_ADMINISTRATORS)
async def test_nobody_else_sees_or_changes_accounts(
    as_role: Any, log_in: Any, services: ConsoleServices, role: AccountRole, method: str, path: str,
    body: Any,
) -> None:  # fmt: skip
    """403, and nothing has changed."""
    before = services.account_store.accounts()
    assert (await as_role(role).request(method, path, json=body)).status_code == 403
    assert services.account_store.accounts() == before


async def test_an_administrator_adds_changes_unlocks_and_removes(
    log_in: Any, stranger: httpx.AsyncClient, services: ConsoleServices,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Each change counts at once, and each is a line of the log with both names."""
    caplog.set_level(logging.INFO)
    sun = await log_in("sun")
    new = {"name": "zhao", "password": OLD, "roles": ["viewer"]}
    assert (await sun.post("/api/accounts", json=new)).status_code == 200
    zhao = await log_in("zhao")
    assert (await zhao.get("/api/records.csv")).status_code == 403
    await sun.put("/api/accounts/zhao/roles", json={"roles": ["viewer", "operator"]})
    assert (await rows(sun))["zhao"]["roles"] == ["viewer", "operator"]
    assert set((await zhao.get("/api/account")).json()["roles"]) == {"viewer", "operator"}
    for _ in range(services.console.failed_logins):
        await stranger.post("/auth/login", data={"name": "zhao", "password": "wrong horse"})
    assert (await rows(sun))["zhao"]["locked_for_s"] > 0
    assert (await sun.delete("/api/accounts/zhao/lock")).status_code == 200
    assert (await rows(sun))["zhao"]["locked_for_s"] == 0
    right = {"name": "zhao", "password": OLD}
    assert (await stranger.post("/auth/login", data=right)).status_code == 303
    assert (await sun.put("/api/accounts/zhao/password", json={"password": NEW})).status_code == 200
    assert (await zhao.get("/api/account")).status_code == 401
    again = await log_in("zhao", NEW)
    assert (await sun.delete("/api/accounts/zhao")).status_code == 200
    assert (await again.get("/api/account")).status_code == 401
    assert "zhao" not in await rows(sun)
    for said in ("sun added zhao", "sun gave zhao", "sun unlocked zhao", "sun set a new password of zhao",
                 "sun removed zhao"):  # fmt: skip
        assert said in caplog.text
    assert "horse" not in caplog.text


async def test_a_last_log_in_is_known_of_who_has_been_here(log_in: Any) -> None:
    """Of li, not of wang; it goes with the account."""
    sun, _ = await log_in("sun"), await log_in("li")
    found = await rows(sun)
    assert found["li"]["last_log_in_ms"] > 0
    assert found["wang"]["last_log_in_ms"] == 0
    await sun.delete("/api/accounts/li")
    await sun.post("/api/accounts", json={"name": "li", "password": OLD, "roles": ["viewer"]})
    assert (await rows(sun))["li"]["last_log_in_ms"] == 0


@pytest.mark.parametrize(("method", "path", "body"), [
    ("DELETE", "/api/accounts/sun", None),
    ("PUT", "/api/accounts/sun/roles", {"roles": ["viewer", "operations"]}),
    ("PUT", "/api/accounts/sun/password", {"password": NEW}),
])  # fmt: skip
async def test_nobody_changes_himself(log_in: Any, method: str, path: str, body: Any) -> None:
    """But his password, and that by showing the old one."""
    sun = await log_in("sun")
    reply = await sun.request(method, path, json=body)
    assert (reply.status_code, reply.json()["fault"]) == (422, "self")


async def test_the_last_administrator_stays(
    as_role: Any, log_in: Any, services: ConsoleServices
) -> None:
    """Also before a guest who may change accounts; with a second one, either may go."""
    guest = as_role()
    for method, path, body in (("DELETE", "/api/accounts/sun", None),
                               ("PUT", "/api/accounts/sun/roles", {"roles": ["viewer"]})):  # fmt: skip
        reply = await guest.request(method, path, json=body)
        assert (reply.status_code, reply.json()["fault"]) == (422, "last")
    assert services.account_store.find("sun").roles == (AccountRole.OPERATIONS,)  # type: ignore[union-attr]
    await guest.put("/api/accounts/li/roles", json={"roles": ["operations"]})
    assert (await guest.delete("/api/accounts/sun")).status_code == 200


@pytest.mark.parametrize(("body", "status"), [
    ({"name": "a b", "password": OLD, "roles": ["viewer"]}, 422),
    ({"name": "", "password": OLD, "roles": ["viewer"]}, 422),
    ({"name": "li", "password": OLD, "roles": ["viewer"]}, 422),
    ({"name": "zhao", "password": "short", "roles": ["viewer"]}, 422),
    ({"name": "zhao", "password": OLD, "roles": []}, 422),
    ({"name": "zhao", "password": OLD, "roles": ["king"]}, 422),
    ({"name": "zhao", "password": OLD}, 422),
    ([], 422),
    ({"name": "z" * 20_000, "password": OLD, "roles": ["viewer"]}, 413),
])  # fmt: skip
async def test_a_new_account_that_cannot_be_is_refused_with_a_reason(
    log_in: Any, services: ConsoleServices, body: Any, status: int
) -> None:
    """And nothing has changed."""
    before = services.account_store.accounts()
    reply = await (await log_in("sun")).post("/api/accounts", json=body)
    assert reply.status_code == status
    assert reply.json()
    assert services.account_store.accounts() == before


@pytest.mark.parametrize(("method", "path", "body"), FOR_ADMINISTRATORS[2:])
async def test_an_account_that_is_gone_is_a_404(
    log_in: Any, method: str, path: str, body: Any
) -> None:
    """Somebody else was quicker."""
    sun = await log_in("sun")
    await sun.delete("/api/accounts/wang")
    reply = await sun.request(method, path, json=body)
    assert (reply.status_code, reply.json()["fault"]) == (404, "gone")


async def test_an_administrator_gives_others_a_unit_and_nobody_himself(log_in: Any) -> None:
    """It counts from the next request on."""
    sun, li = await log_in("sun"), await log_in("li")
    answer = await sun.put("/api/accounts/li/unit", json={"unit": "north", "districts": ["d1", "d1", ""]})
    assert answer.status_code == 200, answer.text
    mine = (await li.get("/api/account")).json()
    assert (mine["unit"], mine["districts"]) == ("north", ["d1"])
    assert (await rows(sun))["li"]["unit"] == "north"
    for name, body, fault in (
        ("sun", {"unit": "north"}, "self"), ("li", {"unit": "*"}, "unit"), ("nobody", {}, "gone"),
        ("li", {"districts": ["a,b"]}, "districts"),
    ):
        refused = await sun.put(f"/api/accounts/{name}/unit", json=body)
        assert refused.json()["fault"] == fault
