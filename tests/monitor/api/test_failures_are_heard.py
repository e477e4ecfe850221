"""The console does not look well while part of it is dead, and says which requests failed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from console_services import client_of
from fastapi import FastAPI

from bus.errors import CheckFailed, check
from monitor.accounts.roles import AccountRole
from monitor.api.services import ConsoleServices

NAMES = ("hub", "kpis", "poller")


@pytest.mark.parametrize("name", NAMES, ids=("hub", "kpis", "watcher"))
async def test_a_console_with_a_dead_task_is_not_well(
    name: str, app: FastAPI, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
):
    """An external probe sees it although the process still runs."""
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

    async def wait() -> None:
        await asyncio.Event().wait()

    async def fail() -> None:
        await asyncio.sleep(0)
        check(False, "planted")

    for each in NAMES:
        monkeypatch.setattr(getattr(services, each), "run", fail if each == name else wait)
    async with app.router.lifespan_context(app), client_of(app) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        while not heard:
            await asyncio.sleep(0)
        answer = await client.get("/healthz")
        dead = services.dead_tasks
    # Anybody may ask: which part it is, is for the log.
    assert (answer.status_code, answer.json()) == (503, {"status": "stopped"})
    assert all(one.startswith("console-") for one in dead)
    assert dead
    assert isinstance(heard[0]["exception"], CheckFailed)


@pytest.mark.parametrize("error", [KeyError, CheckFailed])
async def test_a_request_that_fails_is_counted_and_a_failed_check_ends_the_process(
    error: type[BaseException], app: FastAPI, services: ConsoleServices, monkeypatch: pytest.MonkeyPatch
):
    """What a client's bytes provoke is one answer of 500; a server hides both alike."""
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

    def fail(_: object) -> list[str]:
        raise error("planted")

    monkeypatch.setattr(ConsoleServices, "dead_tasks", property(fail))
    async with client_of(app) as client:
        with pytest.raises(error):
            await client.get("/healthz")
    assert services.failures.count == 1
    assert [type(context["exception"]) for context in heard] == (
        [CheckFailed] if error is CheckFailed else []
    )


async def test_the_count_is_among_the_metrics(as_role: Any, services: ConsoleServices):
    """It is among the metrics that Prometheus reads."""
    services.failures.count = 3
    client: httpx.AsyncClient = as_role(AccountRole.OPERATIONS)
    assert "databus_console_failed_requests_total 3.0" in (await client.get("/metrics")).text
