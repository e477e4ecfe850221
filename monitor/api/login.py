"""Log-in, log-out, one-time links and the choice of language and theme, as plain HTTP, because
cookies can only change there."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from bus.runtime.wall_clock import now_ms
from monitor.accounts.known_devices import LIFETIME_S
from monitor.accounts.login_limiter import LoginSender, TooManyAttempts
from monitor.accounts.one_time_links import redeem
from monitor.accounts.roles import ConsolePrincipal
from monitor.api.auth import address_of
from monitor.api.services import ConsoleServices
from monitor.i18n import LANGUAGES, Texts, texts

log = logging.getLogger(__name__)

_PAGE = (Path(__file__).parent / "login.html").read_text(encoding="utf-8")
DEVICE_COOKIE = "databus_device"
_FIELD = re.compile(r"\{\{(\w+)\}\}")
SessionEnded = Callable[[str], None]


def login_routes(services: ConsoleServices, ended: SessionEnded) -> APIRouter:
    """`ended` hears the hash of a session that is over, to close its open pages."""
    router = APIRouter()

    @router.get("/login")
    async def page(
        request: Request, next: str = "/", language: str = "", ended: bool = False
    ) -> Response:
        if language in LANGUAGES:
            request.session["language"] = language
        return _form(services, request, local_path(next), "shell.session_over" if ended else "")

    @router.post("/auth/login")
    async def log_in(
        request: Request,
        name: str = Form("", max_length=256),
        password: str = Form("", max_length=1024),
        next: str = Form("/"),
    ) -> Response:
        sender = sender_of(services, request, name)
        try:
            principal = await services.passwords.principal(name, password, sender)
        except TooManyAttempts as error:
            # Not logged: refusals cost nothing to make, and the failures before them are logged.
            seconds = error.retry_after_s
            form = _form(
                services, request, local_path(next), "login.wait", 429, typed=name, seconds=seconds
            )
            form.headers["Retry-After"] = str(seconds)
            return form
        if principal is None:
            log.warning("log-in of %r from %s failed", name, sender.address)
            return _form(services, request, local_path(next), "login.wrong", 401, typed=name)
        begun = await _start_session(services, request, principal, local_path(next), ended)
        _remember_device(services, request, begun, name)
        return begun

    @router.get("/auth/once/{token}")
    async def once(request: Request, token: str) -> Response:
        database = services.account_store.database
        principal = await services.account_writes.run(lambda: redeem(database, token, now_ms()))
        if principal is None:
            return _form(services, request, "/", "login.link_over", 401)
        return await _start_session(services, request, principal, "/", ended, guest=True)

    @router.post("/auth/logout")
    async def log_out(request: Request) -> Response:
        await _end_session(services, request, ended)
        return RedirectResponse("/login", 303)

    @router.post("/auth/preferences")
    async def preferences(
        request: Request,
        language: str = Form(""),
        theme: str = Form(""),
        next: str = Form("/"),
    ) -> Response:
        if language in LANGUAGES:
            request.session["language"] = language
        if theme in ("dark", "light"):
            request.session["theme"] = theme
        return RedirectResponse(local_path(next), 303)

    return router


def sender_of(services: ConsoleServices, request: Request, name: str) -> LoginSender:
    """Who sends this name: an address, or a browser in which it has logged in before."""
    cookie = request.cookies.get(DEVICE_COOKIE, "")
    return LoginSender(address_of(request), services.known_devices.device(cookie, name))


def _remember_device(
    services: ConsoleServices, request: Request, response: Response, name: str
) -> None:
    cookie = request.cookies.get(DEVICE_COOKIE, "")
    response.set_cookie(
        DEVICE_COOKIE,
        services.known_devices.logged_in(cookie, name),
        max_age=LIFETIME_S,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


async def _start_session(
    services: ConsoleServices, request: Request, principal: ConsolePrincipal, target: str,
    ended: SessionEnded, *, guest: bool = False,
) -> Response:  # fmt: skip
    """A new session under a new id; the old one is over."""
    kept: dict[str, str] = {
        k: request.session[k] for k in ("language", "theme") if k in request.session
    }
    await _end_session(services, request, ended)
    request.session.update(kept)
    request.session["sid"] = await services.account_writes.run(
        lambda: services.sessions.open(principal, guest=guest)
    )
    log.info("%s logged in", principal.name)
    return RedirectResponse(target, 303)


async def _end_session(services: ConsoleServices, request: Request, ended: SessionEnded) -> None:
    session_id = request.session.get("sid", "")
    principal = services.sessions.principal(session_id)
    if principal is not None:
        await services.account_writes.run(lambda: services.sessions.close(principal.session))
        ended(principal.session)
    request.session.clear()


def local_path(target: str) -> str:
    """A path of this console; never another host."""
    ok = target.startswith("/") and not target.startswith(("//", "/\\", "/login", "/auth"))
    return target if ok and target.isprintable() else "/"


def _form(
    services: ConsoleServices, request: Request, target: str, fault: str, status: int = 200,
    typed: str = "", **numbers: int,
) -> Response:  # fmt: skip
    t = texts(request.session.get("language", services.site.language))
    shown = "" if fault else "hidden"
    values = {
        "lang": t.html_language,
        "title": t("app.title"),
        "site": services.site.name,
        "heading": t("login.heading"),
        "fault": t(fault, **numbers) if fault else "",
        "shown": shown,
        "name": t("login.name"),
        "typed": typed,
        "focus_name": "" if typed else "autofocus",
        "focus_password": "autofocus" if typed else "",
        "password": t("login.password"),
        "enter": t("login.enter"),
        "hint": t("login.hint") if not services.account_store.accounts() else "",
        "next": target,
        "theme": request.session.get("theme", "dark"),
        **_other_language(t, target),
    }
    # In one pass: a name that is written like a field of the template stays as it was typed.
    page = _FIELD.sub(lambda field: html.escape(str(values[field[1]]), quote=True), _PAGE)
    return HTMLResponse(page, status, {"Cache-Control": "no-store"})


def _other_language(t: Texts, target: str) -> dict[str, str]:
    link = f"/login?language={t.other}&next={quote(target, safe='/')}"
    return {"other_name": t("language.other"), "other_link": link}
