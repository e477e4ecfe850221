"""The one guard: every route of the whole application, API, pages, NiceGUI's own files and socket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import nicegui.core
import pytest
from console_services import client_of, make_services, signed
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from monitor.accounts.roles import EVERYBODY, AccountRole, ConsoleOperation, ConsolePrincipal
from monitor.accounts.store import AccountStore
from monitor.api.app import create_api
from monitor.api.auth import is_open
from monitor.api.services import ConsoleServices
from monitor.serve import create_app

OPEN = {"/healthz", "/login", "/auth/login", "/auth/once/{token}"}
NO_OPERATION = OPEN | {
    "/auth/logout",
    "/auth/preferences",
    "/",
    "/assets/{name}",
    "/openapi.json",
}  # for every logged-in user


@pytest.fixture(scope="module")
def whole_services(
    filled: tuple[Any, int], tmp_path_factory: pytest.TempPathFactory
) -> ConsoleServices:
    return make_services(tmp_path_factory.mktemp("whole"), filled[1])


@pytest.fixture(scope="module")
def whole(whole_services: ConsoleServices) -> FastAPI:
    """API and pages; NiceGUI's application is one per process, so this is made once."""
    return create_app(whole_services)


def flat(app: Any) -> Iterator[Any]:
    """Routes, those of included routers too."""
    for route in app.routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from flat(included)


def routes(app: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path, through mounts."""
    for route in flat(app):
        if isinstance(route, Mount):
            yield "GET", prefix + route.path + "/x"
            yield from routes(route, prefix + route.path.rstrip("/"))
        elif isinstance(route, Route):
            for method in route.methods or {"GET"}:
                yield method, prefix + route.path


def filled_in(path: str) -> str:
    return re.sub(r"\{[^}]+\}", "x", path)


async def test_no_route_of_the_whole_application_answers_a_stranger(whole: FastAPI) -> None:
    """Scripts get 401, people the log-in page; the routes are enumerated, not listed."""
    found = {(m, p) for m, p in routes(whole) if p not in OPEN}
    paths = {p for _, p in found}
    assert {"/api/records", "/api/watch", "/metrics", "/openapi.json", "/live", "/map"} <= paths
    assert any("_nicegui" in p for p in paths)
    async with client_of(whole) as stranger:
        for method, path in sorted(found):
            reply = await stranger.request(method, filled_in(path))
            shut = reply.status_code == 401 or (
                reply.status_code == 303 and reply.headers["location"].startswith("/login")
            )
            assert shut, f"{method} {path} answered {reply.status_code}"


PAGE_TOKEN = "token-of-the-pages"


async def test_the_token_of_pages_opens_the_metrics_and_nothing_else(
    whole_services: ConsoleServices,
) -> None:
    """It stands in Prometheus' file. Routes are enumerated; HEAD and the rest of a path are no way round."""
    app = create_api(replace(whole_services, page_token=PAGE_TOKEN))
    async with client_of(app) as reader:
        reader.headers["authorization"] = f"Bearer {PAGE_TOKEN}"
        page = await reader.get("/metrics")
        assert (page.status_code, "databus_console_reachable" in page.text) == (200, True)
        for method, path in sorted((m, p) for m, p in routes(app) if p not in {*OPEN, "/metrics"}):
            reply = await reader.request(method, filled_in(path))
            assert reply.status_code in (303, 401), f"{method} {path}"
        for path in ("/metrics/", "/metrics/x", "//metrics", "/metricsx"):
            assert (await reader.get(path)).status_code in (303, 401), path


WRONG_HEADERS: list[Any] = [
    "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {PAGE_TOKEN}", PAGE_TOKEN, b"Bearer \xff\xfe",
    f"Bearer {PAGE_TOKEN * 5000}",
]  # fmt: skip


@pytest.mark.parametrize("token", [PAGE_TOKEN, ""], ids=["with a token", "without"])
async def test_the_metrics_of_the_console_are_never_open(
    whole_services: ConsoleServices, token: str
) -> None:
    async with client_of(create_api(replace(whole_services, page_token=token))) as stranger:
        for header in WRONG_HEADERS:
            reply = await stranger.get("/metrics", headers={"authorization": header})
            assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert "page_token" in reply.json()["error"]
            assert PAGE_TOKEN not in reply.text


async def test_a_path_nobody_declared_is_shut_too(whole: FastAPI) -> None:
    """The mounted console handles every path; the middleware runs before it."""
    async with client_of(whole) as stranger:
        for path in (
            "/nowhere",
            "/api/nowhere",
            "/_nicegui/x",
            "//live",
            "/live/",
            "/api//records",
        ):
            reply = await stranger.get(path)
            assert reply.status_code in (401, 303), path


def test_only_what_logging_in_needs_is_open() -> None:
    """Look-alikes are not."""
    assert all(is_open(p) for p in ("/healthz", "/login", "/auth/login", "/auth/once/token"))
    assert not any(
        is_open(p) for p in ("/login/", "/healthz/x", "/auth/once", "/auth", "/loginx", "/")
    )


def test_every_route_names_the_one_operation_it_needs(whole: FastAPI) -> None:
    """A route without an operation would be open to every account."""
    checked = 0
    for route in flat(whole):
        if isinstance(route, APIRoute) and route.path not in NO_OPERATION:
            checked += 1
            calls = [d.call for d in route.dependant.dependencies]
            needed = [c.operation for c in calls if hasattr(c, "operation")]
            assert len(needed) == 1, route.path
            assert isinstance(needed[0], ConsoleOperation)
    assert checked > 15


PAGES_BY_ROLE = [
    (path, role, role == AccountRole.OPERATIONS or path == "/account")
    for path in ("/account", "/accounts") for role in AccountRole
]  # fmt: skip


@pytest.mark.parametrize(("path", "role", "may"), PAGES_BY_ROLE)
async def test_pages_of_accounts_are_for_whom_they_are(
    whole_services: ConsoleServices, whole: FastAPI, path: str, role: AccountRole, may: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One's own for everybody, everybody's for the administrator; only he is led there."""
    monkeypatch.setattr(nicegui.core, "loop", asyncio.get_running_loop())  # as its start does
    guest = ConsolePrincipal(name="guest", roles=frozenset([role]))
    sid = whole_services.sessions.open(guest, guest=True)
    async with client_of(whole) as client:
        client.cookies.set("databus_console", signed({"sid": sid}, whole_services.secret))
        assert (await client.get(path)).status_code == (200 if may else 403)
        leads = "/accounts" in (await client.get("/account")).text
        assert leads == (role == AccountRole.OPERATIONS)


async def websocket(app: FastAPI, headers: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """What a handshake on the console's socket is answered."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return (
            {"type": "websocket.connect"}
            if not sent
            else {"type": "websocket.disconnect", "code": 1000}
        )

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await app(
        {
            "type": "websocket",
            "path": "/_nicegui_ws/socket.io/",
            "raw_path": b"/_nicegui_ws/socket.io/",
            "query_string": b"EIO=4&transport=websocket",
            "headers": headers,
            "scheme": "ws",
            "client": ("127.0.0.1", 1),
            "server": ("console", 80),
            "subprotocols": [],
            "root_path": "",
            "http_version": "1.1",
            "extensions": {},
        },
        receive,
        send,
    )
    return sent


async def test_the_websocket_is_shut_to_strangers(whole: FastAPI) -> None:
    """A check of HTTP requests only would leave the live pages open."""
    answers = await websocket(whole, [(b"host", b"console")])
    assert answers == [{"type": "websocket.close", "code": 4401}]


async def test_a_page_of_another_site_cannot_use_our_cookie(as_role: Any) -> None:
    """Unsafe methods from a foreign origin are refused before anything happens."""
    client = as_role()
    reply = await client.post(
        "/api/watch", headers={"origin": "http://evil.example"}, content=b"{}"
    )
    assert reply.status_code == 403
    reply = await client.get("/api/watch", headers={"origin": "http://evil.example"})
    assert reply.status_code == 200


async def test_every_answer_forbids_frames_and_other_hosts(stranger: httpx.AsyncClient) -> None:
    """Also the refusals."""
    for path in ("/healthz", "/login", "/api/records"):
        headers = (await stranger.get(path)).headers
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'self'" in headers["content-security-policy"]


async def test_scripts_come_in_with_a_password(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """HTTP Basic; a wrong password is counted like one in the form."""
    AccountStore(services.site.data_path).add("prometheus", "scrape me please", [AccountRole.VIEWER])
    good = httpx.BasicAuth("prometheus", "scrape me please")
    assert (await stranger.get("/metrics", auth=good)).status_code == 200
    assert (await stranger.get("/metrics", auth=good)).status_code == 200
    services.account_store.remove("prometheus")
    assert (await stranger.get("/metrics", auth=good)).status_code == 401


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !!!", "Basic YWJj", "Bearer x", "Basic /////w=="]
)
async def test_garbage_credentials_are_nobody(stranger: httpx.AsyncClient, header: str) -> None:
    """No traceback, no way in."""
    reply = await stranger.get("/api/records", headers={"authorization": header})
    assert reply.status_code == 401


async def test_a_damaged_account_store_shuts_the_door_and_says_why(
    stranger: httpx.AsyncClient, services: ConsoleServices
) -> None:
    """The answer is 503, neither access nor a traceback."""
    sid = services.sessions.open(ConsolePrincipal(name="x", roles=EVERYBODY), guest=True)
    stranger.cookies.set("databus_console", signed({"sid": sid}, services.secret))
    assert (await stranger.get("/api/records")).status_code == 200
    services.account_store.close()  # nothing is left in the write-ahead log
    path = services.site.data_path / "console" / "accounts.db"
    sound = path.read_bytes()
    path.write_bytes(b"{" * len(sound))
    for _ in range(2):
        reply = await stranger.get("/api/records")
        assert reply.status_code == 503
        assert "put back a copy" in reply.json()["detail"]
        basic = httpx.BasicAuth("x", "correct horse")
        assert (await stranger.get("/metrics", auth=basic)).status_code == 503
        form = await stranger.post("/auth/login", data={"name": "x", "password": "correct horse"})
        assert form.status_code == 503
        assert (await stranger.get("/auth/once/token")).status_code == 503
    path.write_bytes(sound)
    assert (await stranger.get("/api/records")).status_code == 200
