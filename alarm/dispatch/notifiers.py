"""The ways to notify people: a log file, a webhook. Another way is another class of this shape.

A notifier tries once and never waits without a bound; retries are `delivery`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from alarm.settings import DispatcherSettings
from bus.settings import SiteSettings


class NotificationError(Exception):
    """This attempt failed; the next may succeed."""


class Notifier(Protocol):
    """One way to notify people."""

    name: str

    async def send(self, subject: str, body: bytes) -> None:
        """Send once. Raises `NotificationError`."""

    async def close(self) -> None:
        """Release what it holds."""


class LogNotifier:
    """One line of JSON per alarm and incident."""

    name = "log"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, subject: str, body: bytes) -> None:
        """Append the line; the file may be moved away at any time (log rotation)."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(body + b"\n")
        except OSError as error:
            raise NotificationError(str(error)) from error

    async def close(self) -> None:
        """Nothing is held."""


class WebhookNotifier:
    """POSTs the JSON; the subject goes as `Idempotency-Key`, because an answer may be lost."""

    name = "webhook"

    def __init__(self, url: str, timeout_s: float) -> None:
        import httpx  # where none is configured, a small process need not hold it

        self._failed = httpx.HTTPError
        self._url = url
        self._client = httpx.AsyncClient(timeout=timeout_s)

    async def send(self, subject: str, body: bytes) -> None:
        """One request; any 2xx counts as delivered."""
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": subject.encode("ascii", "backslashreplace").decode("ascii"),
        }
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except self._failed as error:
            raise NotificationError(f"{type(error).__name__}: {error}") from error
        if not answer.is_success:
            raise NotificationError(f"status {answer.status_code}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def notifiers(site: SiteSettings, settings: DispatcherSettings) -> list[Notifier]:
    """Those that are configured."""
    found: list[Notifier] = []
    path = settings.alarm_log_path(site)
    if path is not None:
        found.append(LogNotifier(path))
    if settings.webhook_url:
        found.append(WebhookNotifier(settings.webhook_url, settings.webhook_timeout_s))
    return found
