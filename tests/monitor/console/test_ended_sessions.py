"""The pages of a session that is over: each is taken away once, whoever does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from nicegui import Client, core, ui

from monitor.accounts.roles import EVERYBODY, ConsolePrincipal
from monitor.console import mount

SESSION = "s-1"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What the console has put off until the browser had time to leave."""
    put_off: list[Callable[[], object]] = []
    monkeypatch.setattr(mount.nicegui_app, "timer", lambda _, call, once: put_off.append(call))
    return put_off


@pytest.fixture
async def page(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """An open page of the session, before a browser."""
    monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
    state = {"principal": ConsolePrincipal(name="li", roles=EVERYBODY, session=SESSION)}
    scope: dict[str, Any] = {"type": "http", "headers": [], "query_string": b"", "path": "/", "state": state}
    client = Client(ui.page(""), request=Request(scope))
    client.tab_id = "tab"
    yield client
    if client.id in Client.instances:
        client.delete()


async def test_a_page_that_its_browser_has_left_is_not_deleted_a_second_time(
    later: list[Callable[[], object]], page: Client
) -> None:
    """NiceGUI raised a KeyError out of a timer: a traceback for every log-out."""
    mount.end_session(SESSION)
    page.delete()  # as NiceGUI does when the connection ends
    for call in later:
        call()
    assert len(later) == 1


async def test_a_page_whose_browser_stays_is_taken_away(later: list[Callable[[], object]], page: Client) -> None:
    """It would be shown to whoever sits there next."""
    mount.end_session(SESSION)
    mount.end_session(SESSION)
    for call in later:
        call()
    assert len(later) == 1
    assert page.id not in Client.instances


async def test_a_page_without_a_connection_is_left_to_nicegui(
    later: list[Callable[[], object]], page: Client
) -> None:
    """It deletes such a client by itself, some seconds later; then a second time is an error there."""
    mount.end_session(SESSION)
    page.tab_id = None
    for call in later:
        call()
    assert page.id in Client.instances


async def test_pages_of_others_stay(later: list[Callable[[], object]], page: Client) -> None:
    """Only what belongs to the session ends."""
    mount.end_session("another")
    assert later == []
    assert page.id in Client.instances


@pytest.mark.parametrize("unit", ["", "north"])
async def test_a_page_of_somebody_who_has_another_unit_is_built_anew(
    later: list[Callable[[], object]], page: Client, unit: str
) -> None:
    """Else it would go on showing what he sees no longer."""
    now = ConsolePrincipal(name="li", roles=EVERYBODY, session=SESSION, unit=unit)
    sessions = SimpleNamespace(by_hash=lambda _: now)
    mount.end_invalid(SimpleNamespace(sessions=sessions))  # type: ignore[arg-type]
    for call in later:
        call()
    assert (page.id in Client.instances) == (not unit)
