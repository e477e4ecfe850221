"""How people are told: a log file, a webhook. More kinds come as more classes of this shape.

In: the JSON of an alarm or incident. Out: told, or `NotTold`. Never: retries (the service's), a
wait without end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import httpx

from alarm.settings import DispatcherSettings
from bus.settings import SiteSettings


class NotTold(Exception):
    """This attempt failed; the next may succeed."""


class Notifier(Protocol):
    """One way to tell people."""

    name: str

    async def tell(self, subject: str, body: bytes) -> None:
        """Tell once. Raises `NotTold`."""

    async def close(self) -> None:
        """Release what it holds."""


class LogNotifier:
    """One line of JSON per alarm and incident."""

    name = "log"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def tell(self, subject: str, body: bytes) -> None:
        """Append the line; the file may be moved away at any time (log rotation)."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(body + b"\n")
        except OSError as error:
            raise NotTold(str(error)) from error

    async def close(self) -> None:
        """Nothing is held."""


class WebhookNotifier:
    """POSTs the JSON; the subject goes as `Idempotency-Key`, because an answer may be lost."""

    name = "webhook"

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._client = httpx.AsyncClient(timeout=timeout_s)

    async def tell(self, subject: str, body: bytes) -> None:
        """One request; any 2xx counts as told."""
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": subject.encode("ascii", "backslashreplace").decode("ascii"),
        }
        try:
            answer = await self._client.post(self._url, content=body, headers=headers)
        except httpx.HTTPError as error:
            raise NotTold(f"{type(error).__name__}: {error}") from error
        if not answer.is_success:
            raise NotTold(f"status {answer.status_code}")

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
