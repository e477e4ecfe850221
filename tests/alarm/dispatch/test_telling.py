"""Notifiers are tried a bounded number of times and keep nobody waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from alarm.dispatch.notifiers import LogNotifier, Notifier, WebhookNotifier, notifiers
from alarm.dispatch.operations import Decided, Operations
from alarm.dispatch.telling import Telling
from alarm.settings import DispatcherSettings
from bus.contracts.alarms import Incident
from bus.settings import SiteSettings

INCIDENT = Incident(incident_id="i", kind="latency", state="open", opened_at_ms=1)
SETTINGS = DispatcherSettings(notify_attempts=3, notify_pause_s=0.01)


class Hook:
    """A web server of one path that answers as told and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[str, bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        self.got.append((headers["idempotency-key"], body))
        status = self.answers.pop(0) if self.answers else 200
        writer.write(
            f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()


@pytest.fixture
async def hook() -> AsyncIterator[tuple[Hook, str]]:
    served = Hook()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    yield served, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/alarms"
    server.close()


async def told(
    tmp_path: Path, notifier: Notifier, done: Callable[[Operations], bool]
) -> Operations:
    operations = Operations(tmp_path / "operations.db", [notifier.name])
    operations.apply(Decided(incidents=[INCIDENT]))
    telling = Telling(operations, [notifier], SETTINGS)
    task = asyncio.create_task(telling.run())
    async with asyncio.timeout(10):
        while not done(operations):
            telling.wake()
            await asyncio.sleep(0.005)
    task.cancel()
    await telling.close()
    return operations


def nothing_waits(operations: Operations) -> bool:
    return not operations.due(1 << 60, 10)


async def test_the_log_gets_one_line_of_json(tmp_path: Path) -> None:
    """The file is appended to, its folder made."""
    path = tmp_path / "log" / "alarms.log"
    (await told(tmp_path, LogNotifier(path), nothing_waits)).close()
    assert [json.loads(line)["incident_id"] for line in path.read_text().splitlines()] == ["i"]


async def test_a_webhook_that_fails_twice_is_told_at_the_third_attempt(
    tmp_path: Path, hook: tuple[Hook, str]
) -> None:
    """Every attempt carries the same idempotency key."""
    served, url = hook
    served.answers = [500, 503]
    (await told(tmp_path, WebhookNotifier(url, 5), nothing_waits)).close()
    assert [key for key, _ in served.got] == ["i:open"] * 3
    assert json.loads(served.got[0][1])["state"] == "open"


async def test_a_webhook_that_never_answers_is_given_up(
    tmp_path: Path, hook: tuple[Hook, str]
) -> None:
    """The attempts are bounded; the alarm itself is in the store."""
    served, url = hook
    served.answers = [500] * 50
    (await told(tmp_path, WebhookNotifier(url, 5), nothing_waits)).close()
    assert len(served.got) == SETTINGS.notify_attempts


def test_only_configured_notifiers_exist(tmp_path: Path) -> None:
    """No webhook without an address, no log where it is switched off."""
    site = SiteSettings(data_dir=str(tmp_path))
    assert [n.name for n in notifiers(site, DispatcherSettings())] == ["log"]
    assert notifiers(site, DispatcherSettings(alarm_log="-")) == []
    both = DispatcherSettings(webhook_url="http://127.0.0.1:1/")
    assert [n.name for n in notifiers(site, both)] == ["log", "webhook"]
