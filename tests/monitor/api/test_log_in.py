"""Log-in, log-out, links, preferences, over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from console_services import client_of
from fastapi import FastAPI

from monitor.accounts.book import AccountBook
from monitor.accounts.once import issue_one_time_link
from monitor.accounts.roles import Role
from monitor.api.app import create_api
from monitor.api.log_in import local_path
from monitor.api.services import Services


async def post(client: httpx.AsyncClient, name: str, password: str, **more: str) -> httpx.Response:
    return await client.post("/auth/login", data={"name": name, "password": password, **more})


async def test_a_person_logs_in_and_out(stranger: httpx.AsyncClient, services: Services) -> None:
    """And the old cookie is worth nothing after that, though its signature is still good."""
    AccountBook(services.site.data_path).add("li", "correct horse", [Role.VIEWER])
    reply = await post(stranger, "li", "correct horse", next="/map")
    assert (reply.status_code, reply.headers["location"]) == (303, "/map")
    assert "httponly" in reply.headers["set-cookie"].lower()
    assert (await stranger.get("/api/records?limit=1")).status_code == 200
    old = stranger.cookies["databus_console"]
    assert (await stranger.post("/auth/logout")).status_code == 303
    stranger.cookies.set("databus_console", old)
    assert (await stranger.get("/api/records?limit=1")).status_code == 401


async def test_logging_in_again_ends_the_first_session_and_changes_its_id(
    services: Services,
) -> None:
    """Rotation: an id that somebody planted or read before is of no use afterwards."""
    ended: list[str] = []
    AccountBook(services.site.data_path).add("li", "correct horse", [Role.VIEWER])
    async with client_of(create_api(services, ended.append)) as client:
        await post(client, "li", "correct horse")
        first = client.cookies["databus_console"]
        await post(client, "li", "correct horse")
        assert client.cookies["databus_console"] != first
        assert len(ended) == 1


async def test_after_too_many_failures_even_the_right_password_waits(
    stranger: httpx.AsyncClient, services: Services
) -> None:
    """Per account and address; another account is not shut out."""
    book = AccountBook(services.site.data_path)
    book.add("li", "correct horse", [Role.VIEWER])
    book.add("wang", "correct horse", [Role.VIEWER])
    for _ in range(services.console.failed_logins):
        assert (await post(stranger, "li", "wrong horse")).status_code == 401
    assert (await post(stranger, "li", "correct horse")).status_code == 429
    assert (await post(stranger, "wang", "correct horse")).status_code == 303


async def test_a_one_time_link_opens_the_console_once(app: FastAPI, services: Services) -> None:
    """Whoever finds it in a terminal's history stays outside."""
    path = issue_one_time_link(services.site.data_path, base_url="")
    async with client_of(app) as first, client_of(app) as second:
        assert (await first.get(path)).status_code == 303
        assert (await first.get("/api/status")).status_code == 200
        assert (await second.get(path)).status_code == 401
        assert (await second.get("/api/status")).status_code == 401


async def test_language_and_theme_are_kept_over_the_log_in(
    stranger: httpx.AsyncClient, services: Services
) -> None:
    """Chosen on the log-in page, still there behind it."""
    assert "用户名" in (await stranger.get("/login")).text
    assert "Password" in (await stranger.get("/login?language=en")).text
    AccountBook(services.site.data_path).add("li", "correct horse", [Role.VIEWER])
    await post(stranger, "li", "correct horse")
    assert "Password" in (await stranger.get("/login")).text


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil", "javascript:1", "", "/login", "/a\nb"],
)
def test_the_way_on_never_leaves_the_console(target: str) -> None:
    """Whatever a link says."""
    assert local_path(target) == "/"


async def test_what_a_stranger_writes_is_shown_as_text(stranger: httpx.AsyncClient) -> None:
    """No markup from a link on the log-in page."""
    reply = await stranger.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>alert" not in reply.text


async def test_a_viewer_may_look_but_not_act(as_role: Any) -> None:
    """403, and the reason."""
    viewer = as_role(Role.VIEWER)
    assert (await viewer.get("/api/records?limit=1")).status_code == 200
    assert (await viewer.get("/api/watch")).status_code == 200
    assert (await viewer.get("/api/records.csv")).status_code == 403
    assert (await viewer.post("/api/watch", content=b"{}")).status_code == 403
    assert (await viewer.delete("/api/watch/w-1")).status_code == 403
