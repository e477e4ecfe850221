"""Accounts over HTTP: one's own password for everybody, everybody's accounts for who may."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Request, Response

from monitor.accounts.errors import AccountError
from monitor.accounts.login_limiter import TooManyAttempts
from monitor.accounts.passwords import WeakPassword
from monitor.accounts.roles import AccountRole, ConsoleOperation, ConsolePrincipal
from monitor.api.access import allow, json_response, read_body
from monitor.api.login import sender_of
from monitor.api.services import ConsoleServices

MAX_BODY_BYTES = 16 << 10
Body = TypeVar("Body")
Owner = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.ACCOUNT_OWN))]
Administrator = Annotated[ConsolePrincipal, Depends(allow(ConsoleOperation.ACCOUNTS_WRITE))]


class OwnPassword(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a change of one's own password."""

    old: str
    new: str


class NewAccount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a new account."""

    name: str
    password: str
    roles: list[AccountRole]


class NewRoles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of other roles."""

    roles: list[AccountRole]


class NewUnit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of another unit, and of districts by their ids; empty: none, and all."""

    unit: str = ""
    districts: list[str] = []


class NewPassword(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a password that is set."""

    password: str


def account_routes(services: ConsoleServices) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api")
    _add_own(router, services)
    _add_all(router, services)
    return router


def _add_own(router: APIRouter, services: ConsoleServices) -> None:
    @router.get("/account")
    async def account(who: Owner) -> Response:
        roles = sorted(role.value for role in who.roles)
        return json_response(
            {
                "name": who.name, "roles": roles, "guest": who.is_guest, "unit": who.unit,
                "districts": list(who.districts),
            }
        )  # fmt: skip

    @router.post("/account/password")
    async def change_password(request: Request, who: Owner) -> Response:
        given = await _body(request, OwnPassword)
        sender = sender_of(services, request, who.name)
        change = services.account_changes.change_own_password(who, given.old, given.new, sender)
        return await _changed(change)


def _add_all(router: APIRouter, services: ConsoleServices) -> None:
    changes = services.account_changes

    @router.get("/accounts")
    async def accounts(who: Administrator) -> Response:
        return json_response({"rows": changes.rows()})

    @router.post("/accounts")
    async def add(request: Request, who: Administrator) -> Response:
        given = await _body(request, NewAccount)
        return await _changed(changes.add(who, given.name, given.password, given.roles))

    @router.put("/accounts/{name}/roles")
    async def set_roles(request: Request, who: Administrator, name: str) -> Response:
        given = await _body(request, NewRoles)
        return await _changed(changes.set_roles(who, name, given.roles))

    @router.put("/accounts/{name}/unit")
    async def set_unit(request: Request, who: Administrator, name: str) -> Response:
        given = await _body(request, NewUnit)
        return await _changed(changes.set_unit(who, name, given.unit, given.districts))

    @router.put("/accounts/{name}/password")
    async def set_password(request: Request, who: Administrator, name: str) -> Response:
        given = await _body(request, NewPassword)
        return await _changed(changes.set_password(who, name, given.password))

    @router.delete("/accounts/{name}/lock")
    async def unlock(who: Administrator, name: str) -> Response:
        return await _changed(_unlocked(services, who, name))

    @router.delete("/accounts/{name}")
    async def remove(who: Administrator, name: str) -> Response:
        return await _changed(changes.remove(who, name))


async def _unlocked(services: ConsoleServices, who: ConsolePrincipal, name: str) -> None:
    services.account_changes.unlock(who, name)


async def _changed(change: Awaitable[None]) -> Response:
    """The answer to a change: done, or why not."""
    try:
        await change
    except AccountError as error:
        status = 404 if error.fault == "gone" else 422
        return json_response({"error": str(error), "fault": error.fault}, status)
    except WeakPassword as error:
        return json_response({"error": str(error), "fault": "weak"}, 422)
    except TooManyAttempts as error:
        headers = {"Retry-After": str(error.retry_after_s)}
        raise HTTPException(429, str(error), headers) from error
    return json_response({"changed": True})


async def _body(request: Request, kind: type[Body]) -> Body:
    body = await read_body(request, MAX_BODY_BYTES, f"at most {MAX_BODY_BYTES} bytes")
    return msgspec.json.decode(body, type=kind)
