"""The ways to tell people: a log file, a signed webhook, mail, an SMS gateway, a command.

A notifier tries once and never waits longer than its bound; retries are `delivery`'s. Large
libraries are imported by the class that needs them: the watch is a small process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from bus.notify.mail import MailServer, send_mail
from bus.notify.notice_text import NoticeText, notice_text
from bus.notify.settings import COMMAND, MAIL, WEBHOOK, NoticeRecipient, NoticeSettings, name_of
from bus.runtime import wall_clock
from bus.settings import SiteSettings

TextOf = Callable[[bytes], NoticeText]
SIGNATURE, TIMESTAMP, IDEMPOTENCY_KEY = "Databus-Signature", "Databus-Timestamp", "Idempotency-Key"
_PLACE = re.compile(r"\{(text|id|severity)\}")


class NotifierError(Exception):
    """This attempt failed; the next may succeed."""


class Notifier(Protocol):
    """One way to tell people. Any exception of `send` means: not sent, try again."""

    name: str

    async def send(self, subject: str, body: bytes) -> None:
        """Send once. `subject` is the once-only key, the same at every retry; `body` the JSON."""

    async def close(self) -> None:
        """Release what it holds."""


TAIL_BYTES = 256 << 10
"""More than a batch of notices."""


class LogNotifier:
    """One line of JSON per alarm and incident. A process that died after a line and before the note
    that it was sent leaves it at the end of the file: the next one finds it there, once."""

    name = "log"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written_before: set[bytes] | None = None

    async def send(self, subject: str, body: bytes) -> None:
        """Append the line; the file may be moved away at any time (log rotation)."""
        await asyncio.to_thread(self._append, body + b"\n")

    def _append(self, line: bytes) -> None:
        """In a thread, for the disk may hang. What a full disk took stays a line of its own."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if self._written_before is None:
                tail = os.pread(file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))
                self._written_before = set(tail.splitlines(keepends=True))
            if line in self._written_before:
                self._written_before.discard(line)
                return
            if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
                line = b"\n" + line
            if file.write(line) != len(line):
                raise NotifierError(f"{self._path}: the disk is full")

    async def close(self) -> None:
        """Nothing is held."""


class _HttpSender:
    """Requests with a bound on each as a whole."""

    def __init__(self, timeout_s: float) -> None:
        import httpx

        self._failed = httpx.HTTPError
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(timeout=timeout_s)

    async def request(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str]
    ) -> None:
        """One request; any 2xx counts as delivered."""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.request(
                    method, url, content=content or None, headers=dict(headers)
                )
        except self._failed as error:
            raise NotifierError(f"{type(error).__name__}: {error}") from error
        if not answer.is_success:
            raise NotifierError(f"status {answer.status_code}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class WebhookNotifier:
    """POSTs the JSON; the subject goes as `Idempotency-Key`, because an answer may be lost."""

    def __init__(
        self, url: str, secret: str, timeout_s: float, recipient: str = ""
    ) -> None:
        self.name = name_of(recipient, WEBHOOK)
        self._url = url
        self._secret = secret
        self._http = _HttpSender(timeout_s)

    async def send(self, subject: str, body: bytes) -> None:
        """Signed anew at every attempt, so that a receiver may refuse what is old."""
        headers = {
            "Content-Type": "application/json",
            IDEMPOTENCY_KEY: subject.encode("ascii", "backslashreplace").decode("ascii"),
        }
        if self._secret:
            headers[TIMESTAMP] = str(wall_clock.now_ms() // 1000)
            headers[SIGNATURE] = signature(self._secret, headers[TIMESTAMP], body)
        await self._http.request("POST", self._url, body, headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body."""
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={signed.hexdigest()}"


class MailNotifier:
    """One mail to all recipients."""

    def __init__(self, server: MailServer, text_of: TextOf, recipient: str = "") -> None:
        self.name = name_of(recipient, MAIL)
        self._server = server
        self._text_of = text_of

    async def send(self, subject: str, body: bytes) -> None:
        """In a thread: the standard library's client blocks, and its timeout bounds each step."""
        await asyncio.to_thread(send_mail, self._server, subject, self._text_of(body))

    async def close(self) -> None:
        """Nothing is held between two mails."""


class SmsNotifier:
    """The request that makes an operator's gateway send a text message."""

    name = "sms"

    def __init__(self, settings: NoticeSettings, text_of: TextOf) -> None:
        self._settings = settings
        self._text_of = text_of
        self._http = _HttpSender(settings.timeout_s)

    async def send(self, subject: str, body: bytes) -> None:
        """Address and body with their places filled in, each in its own way of writing."""
        text, kind = self._text_of(body), self._content_type()
        places = {"text": text.line, "id": subject, "severity": text.severity}
        url = _filled(self._settings.sms_url, places, lambda value: quote(value, safe=""))
        content = _filled(self._settings.sms_body, places, _ESCAPES.get(kind, str))
        headers = {"Content-Type": f"{kind}; charset=utf-8", **self._settings.sms_headers}
        await self._http.request(self._settings.sms_method, url, content.encode(), headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    def _content_type(self) -> str:
        for name, value in self._settings.sms_headers.items():
            if name.lower() == "content-type":
                return value.partition(";")[0].strip().lower()
        return "application/json"


_ESCAPES: dict[str, Callable[[str], str]] = {
    "application/json": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "application/x-www-form-urlencoded": lambda value: quote(value, safe=""),
}


def _filled(template: str, places: Mapping[str, str], escape: Callable[[str], str]) -> str:
    """In one pass: a value that looks like a place is not filled in again."""
    return _PLACE.sub(lambda found: escape(places[found.group(1)]), template)


class CommandNotifier:
    """A program of the operator's: the JSON is its standard input, status 0 means that it told."""

    def __init__(
        self, command: tuple[str, ...], timeout_s: float, recipient: str = ""
    ) -> None:
        self.name = name_of(recipient, COMMAND)
        self._command = command
        self._timeout_s = timeout_s

    async def send(self, subject: str, body: bytes) -> None:
        """Without a shell, in a process group of its own, which is killed when the time is up."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "DATABUS_NOTICE": subject.replace("\0", " ")},
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._timeout_s):
                await process.communicate(body)
        except TimeoutError:
            raise NotifierError(f"{self._command[0]} took over {self._timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise NotifierError(f"{self._command[0]} ended with {process.returncode}")

    async def close(self) -> None:
        """Nothing is held."""


def _texts_of(site: SiteSettings) -> TextOf:
    return lambda body: notice_text(body, site.language, site.tz)


def notifiers(site: SiteSettings, settings: NoticeSettings) -> list[Notifier]:
    """Those that are configured."""
    text_of = _texts_of(site)
    found: list[Notifier] = []
    path = settings.alarm_log_path(site)
    if path is not None:
        found.append(LogNotifier(path))
    if settings.webhook_url:
        found.append(
            WebhookNotifier(settings.webhook_url, settings.webhook_secret, settings.timeout_s)
        )
    if settings.mail_host and settings.mail_to:
        found.append(MailNotifier(MailServer.of(settings), text_of))
    if settings.sms_url:
        found.append(SmsNotifier(settings, text_of))
    if settings.command:
        found.append(CommandNotifier(settings.command, settings.timeout_s))
    return found


def recipient_notifiers(site: SiteSettings, settings: NoticeSettings) -> list[Notifier]:
    """Those of recipients, who are told of some alarms, and of incidents where they ask for them.
    """
    return _of_recipients(site, settings, settings.recipients)


def incident_notifiers(site: SiteSettings, settings: NoticeSettings) -> list[Notifier]:
    """For who tells of incidents alone: the ways of all, and of recipients who ask for them."""
    asking = {name: one for name, one in settings.recipients.items() if one.incidents}
    return [*notifiers(site, settings), *_of_recipients(site, settings, asking)]


def _of_recipients(
    site: SiteSettings, settings: NoticeSettings, recipients: Mapping[str, NoticeRecipient]
) -> list[Notifier]:
    text_of = _texts_of(site)
    found: list[Notifier] = []
    for name, one in recipients.items():
        if one.mail_to:
            server = MailServer.of(settings, one.mail_to)
            found.append(MailNotifier(server, text_of, name))
        if one.webhook_url:
            found.append(
                WebhookNotifier(one.webhook_url, one.webhook_secret, settings.timeout_s, name)
            )
        if one.command:
            found.append(CommandNotifier(one.command, settings.timeout_s, name))
    return found
