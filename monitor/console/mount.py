"""Mounts the pages behind authentication and ends the pages of sessions that are over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import FileResponse, RedirectResponse, Response
from nicegui import Client, ui
from nicegui import app as nicegui_app
from nicegui.storage import Storage

from monitor.accounts.roles import ConsoleOperation
from monitor.api.access import allow, principal_of
from monitor.api.auth import is_for_machines
from monitor.api.services import ConsoleServices
from monitor.console.address import SEARCHES
from monitor.console.layout import NEEDS, PAGES, STATIC, View, page_layout, view_of
from monitor.console.live_updates import LiveUpdates
from monitor.console.page_garbage import PageGarbage
from monitor.console.pages import (
    account,
    accounts,
    alarms,
    bus,
    cases,
    cluster,
    faces,
    latency,
    lists,
    live,
    map,
    metadata,
    mirror,
    missing,
    proposals,
    quality,
    questions,
    register,
    search,
    system,
    watch,
    wrong_address,
)

CHECK_SECONDS = 1.0  # how long a page may outlive its session; a look costs two stats and a list
DELETE_SECONDS = 1.0  # for the browser to leave the page before its connection is taken away
MESSAGE_HISTORY = 300  # resent after a short break of the connection; the rest is in the rings

_BUILDERS: dict[str, tuple[Callable[[View], None], ConsoleOperation]] = {
    "live": (live.build, ConsoleOperation.VIEW),
    "map": (map.build, ConsoleOperation.VIEW),
    "records": (search.build_records, ConsoleOperation.VIEW),
    "faces": (faces.build, ConsoleOperation.WATCH_READ),
    "alarms": (alarms.build, ConsoleOperation.VIEW),
    "watch": (watch.build, ConsoleOperation.WATCH_READ),
    "proposals": (proposals.build, ConsoleOperation.WATCH_READ),
    "lists": (lists.build, ConsoleOperation.WATCH_READ),
    "cases": (cases.build, ConsoleOperation.WATCH_READ),
    "register": (register.build, ConsoleOperation.VIEW),
    "latency": (latency.build, ConsoleOperation.VIEW),
    "quality": (quality.build, ConsoleOperation.VIEW),
    "bus": (bus.build, ConsoleOperation.BUS_READ),
    "cluster": (cluster.build, ConsoleOperation.BUS_READ),
    "metadata": (metadata.build, ConsoleOperation.BUS_READ),
    "mirror": (mirror.build, ConsoleOperation.BUS_READ),
    "system": (system.build, ConsoleOperation.SYSTEM_READ),
    "account": (account.build, ConsoleOperation.ACCOUNT_OWN),
    "accounts": (accounts.build, NEEDS["accounts"]),
    "questions": (questions.build, NEEDS["questions"]),
}


_ending: set[str] = set()  # clients that were sent away; NiceGUI has one application a process


def mount_pages(app: FastAPI, services: ConsoleServices) -> None:
    """Everything of NiceGUI; once per process, because its own application is one per process."""
    Storage.path = services.site.data_path / "console" / "nicegui"
    feed = LiveUpdates(services)
    feed.connect()
    _assets(app)
    for name, (build, operation) in _BUILDERS.items():
        _page(services, feed, name, build, operation)
    _missing_page(services, feed)
    nicegui_app.timer(CHECK_SECONDS, lambda: end_invalid(services))
    PageGarbage().watch()
    ui.run_with(
        app,
        title="surveillance-data-bus",
        favicon=STATIC / "icon.svg",
        language="zh-CN" if services.site.language == "zh" else "en-US",
        tailwind=False,
        message_history_length=MESSAGE_HISTORY,
        show_welcome_message=False,
        binding_refresh_interval=None,
    )


def _assets(app: FastAPI) -> None:
    @app.get("/")
    async def home() -> Response:
        return RedirectResponse(f"/{next(iter(PAGES))}", 303)

    @app.get("/assets/{name}")
    async def asset(name: str) -> Response:
        path = STATIC / Path(name).name
        if not path.is_file():
            return Response(status_code=404)
        return FileResponse(path, headers={"Cache-Control": "private, max-age=86400"})


def _page(
    services: ConsoleServices,
    feed: LiveUpdates,
    name: str,
    build: Callable[[View], None],
    operation: ConsoleOperation,
) -> None:
    may = allow(operation)

    @ui.page(f"/{name}")
    def page(request: Request) -> None:
        may(request)
        view = view_of(services, feed, request, name)
        with page_layout(view, name):
            if view.address.wrong and name not in SEARCHES:
                wrong_address.build(view)
            else:
                build(view)


def _missing_page(services: ConsoleServices, feed: LiveUpdates) -> None:
    """What no route takes ends here, whether it was meant for the API or for a page."""

    @nicegui_app.exception_handler(404)
    async def missing_page(request: Request, error: HTTPException) -> Response:
        if is_for_machines(request.url.path) or request.method not in ("GET", "HEAD"):
            return await http_exception_handler(request, error)
        with Client(ui.page(""), request=request) as client:
            view = view_of(services, feed, request, "missing")
            with page_layout(view, "missing"):
                missing.build(view)
        return client.build_response(request, 404)


def end_session(session: str) -> None:
    """A session is over: its open pages go to the log-in page and get no further updates."""
    for client in list(Client.instances.values()):
        if _session_of(client) == session:
            _end(client)


def end_invalid(services: ConsoleServices) -> None:
    """Sessions end by time, by a removed account, by a new password: look now and then. A page of
    somebody who has another unit, or other districts, is built anew."""
    clients = [(client, _session_of(client)) for client in list(Client.instances.values())]
    present = {s: services.sessions.by_hash(s) for s in {s for _, s in clients if s}}
    for client, session in clients:
        if not session:
            continue
        principal = present[session]
        if principal is None:
            _end(client)
        elif principal.viewer != principal_of(client.request).viewer:
            _end(client, "location.reload()")


def _session_of(client: Client) -> str:
    try:
        return principal_of(client.request).session
    except Exception:  # a client without a request of ours (NiceGUI's own error pages)
        return ""


def _end(client: Client, script: str = "databus.leave()") -> None:
    if client.id in _ending:
        return
    _ending.add(client.id)
    client.on_delete(lambda: _ending.discard(client.id))
    client.run_javascript(script)
    nicegui_app.timer(DELETE_SECONDS, lambda: _delete_connected(client), once=True)


def _delete_connected(client: Client) -> None:
    """NiceGUI deletes by itself a client whose browser has left; twice is an error there."""
    if client.id in Client.instances and client.has_socket_connection:
        client.delete()
