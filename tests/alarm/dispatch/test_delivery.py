"""Notifiers are tried a bounded number of times and delay nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from alarm.dispatch.delivery import NotificationDelivery
from alarm.dispatch.notifiers import LogNotifier, Notifier, WebhookNotifier, notifiers
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.settings import DispatcherSettings
from bus.contracts.alarms import Incident
from bus.settings import SiteSettings

INCIDENT = Incident(incident_id="i", kind="latency", state="open", opened_at_ms=1)
SETTINGS = DispatcherSettings(notify_attempts=3, notify_pause_s=0.01)


class Hook:
    """A web server with one path that gives the configured answers and records its requests."""

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


async def delivered(
    tmp_path: Path, notifier: Notifier, done: Callable[[OperationsStore], bool]
) -> OperationsStore:
    operations = OperationsStore(tmp_path / "operations.db", [notifier.name])
    operations.apply(BatchChanges(incidents=[INCIDENT]))
    notifications = NotificationDelivery(operations, [notifier], SETTINGS)
    task = asyncio.create_task(notifications.run())
    async with asyncio.timeout(10):
        while not done(operations):
            notifications.wake()
            await asyncio.sleep(0.005)
    task.cancel()
    await notifier.close()
    return operations


def nothing_waits(operations: OperationsStore) -> bool:
    return not operations.due(1 << 60, 10)


async def test_the_log_gets_one_line_of_json(tmp_path: Path) -> None:
    """It is appended to the file, whose folder is created."""
    path = tmp_path / "log" / "alarms.log"
    (await delivered(tmp_path, LogNotifier(path), nothing_waits)).close()
    assert [json.loads(line)["incident_id"] for line in path.read_text().splitlines()] == ["i"]


async def test_a_webhook_that_fails_twice_is_told_at_the_third_attempt(
    tmp_path: Path, hook: tuple[Hook, str]
) -> None:
    """Every attempt carries the same idempotency key."""
    served, url = hook
    served.answers = [500, 503]
    (await delivered(tmp_path, WebhookNotifier(url, 5), nothing_waits)).close()
    assert [key for key, _ in served.got] == ["i:open"] * 3
    assert json.loads(served.got[0][1])["state"] == "open"


async def test_a_webhook_that_never_answers_is_given_up(
    tmp_path: Path, hook: tuple[Hook, str]
) -> None:
    """The attempts are bounded; the alarm itself stays in the store."""
    served, url = hook
    served.answers = [500] * 50
    (await delivered(tmp_path, WebhookNotifier(url, 5), nothing_waits)).close()
    assert len(served.got) == SETTINGS.notify_attempts


def test_only_configured_notifiers_exist(tmp_path: Path) -> None:
    """There is no webhook without an address, and no log if it is switched off."""
    site = SiteSettings(data_dir=str(tmp_path))
    assert [n.name for n in notifiers(site, DispatcherSettings())] == ["log"]
    assert notifiers(site, DispatcherSettings(alarm_log="-")) == []
    both = DispatcherSettings(webhook_url="http://127.0.0.1:1/")
    assert [n.name for n in notifiers(site, both)] == ["log", "webhook"]
