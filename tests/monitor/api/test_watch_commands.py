"""Rules by the API: what the decider answers is what the caller gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from console_services import client_of, make_services, signed
from console_traffic import make_topics

from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.commands import WatchCommand
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from monitor.accounts.roles import EVERYBODY, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import ConsoleServices
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-bus")]
RULE = {"name": "n", "match": {"plate_number": ["浙A12345"]}, "rule_id": "api"}


@pytest.fixture(scope="module")
def address(broker: RunningBroker) -> str:
    make_topics(broker.bootstrap)
    return broker.bootstrap


@pytest.fixture
def on_bus(address: str, data_path: Path, filled: tuple[Path, int]) -> ConsoleServices:
    return make_services(data_path, filled[1], address)


@pytest.fixture
async def client(on_bus: ConsoleServices) -> AsyncIterator[httpx.AsyncClient]:
    """Everybody's rights; the live consumer follows the rules."""
    hub = asyncio.create_task(on_bus.hub.run())
    sid = on_bus.sessions.open(ConsolePrincipal(name="guest", roles=EVERYBODY), guest=True)
    async with client_of(create_api(on_bus)) as found:
        found.cookies.set("databus_console", signed({"sid": sid}, on_bus.secret))
        yield found
    hub.cancel()
    await asyncio.gather(hub, return_exceptions=True)
    await asyncio.to_thread(on_bus.commands.close)


@pytest.fixture
def decided(address: str) -> Iterator[None]:
    with running_decider(address):
        yield


async def known(services: ConsoleServices, rule_id: str, version: int) -> None:
    """The console's table has that version."""
    async with asyncio.timeout(30):
        while (rule := services.hub.live.rules.get(rule_id)) is None or rule.version < version:
            await asyncio.sleep(0.02)


async def test_a_rule_is_put_changed_by_who_saw_it_and_removed(
    client: httpx.AsyncClient, on_bus: ConsoleServices, decided: None
) -> None:
    """201 with the version that was decided; of a version that is not the present one 409, with who
    changed it and when; 404 where it is gone."""
    put = await client.post("/api/watch", json=RULE)
    assert put.status_code == 201, put.text
    first = put.json()["version"]
    changed = await client.post("/api/watch", json={**RULE, "note": "x", "seen_version": first})
    assert changed.status_code == 201
    stale = await client.post("/api/watch", json={**RULE, "seen_version": first})
    said: dict[str, Any] = stale.json()
    assert stale.status_code == 409
    assert (said["field"], said["code"], said["changed_by"]) == ("seen_version", "stale", "guest")
    assert said["version"] == changed.json()["version"]
    assert said["changed_at_ms"] > 0
    await known(on_bus, "api", said["version"])
    stale = await client.delete(f"/api/watch/api?seen_version={first}")
    assert stale.status_code == 409
    removed = await client.delete(f"/api/watch/api?seen_version={said['version']}")
    assert removed.status_code == 200
    assert removed.json()["version"] > said["version"]
    assert (await client.delete("/api/watch/api")).status_code == 404


async def test_what_the_decider_alone_knows_to_be_wrong_is_a_422_with_its_field(
    client: httpx.AsyncClient, decided: None
) -> None:
    refused = await client.post("/api/watch", json={**RULE, "rule_id": "r" * 201})
    assert (refused.status_code, refused.json()["field"]) == (422, "rule_id")
    refused = await client.post("/api/watch", json={**RULE, "match": {}, "where": "plate_number on gone"})
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_list")
    assert "no list gone is in force" in refused.json()["error"]


async def test_where_nobody_decides_the_caller_is_told_that_it_waits(
    client: httpx.AsyncClient, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """504, and no rule; who decides later decides on it."""
    monkeypatch.setattr("monitor.live.command_sender.ANSWER_S", 0.3)
    waits = await client.post("/api/watch", json={**RULE, "rule_id": "later"})
    assert waits.status_code == 504
    assert "nobody has decided" in waits.json()["error"]
    bus = BusSettings(bootstrap_servers=address)
    with running_decider(address), closing(CommandClient(bus, "main", "test")) as other:
        removal = WatchCommand(rule_id="later", op="remove", version=1, command_id=new_command_id())
        answer = await asyncio.to_thread(other.request, removal, 60)
    assert answer.state == "accepted"
