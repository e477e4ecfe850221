"""Each way of telling against a real other end: HTTP, SMTP, programs; what they may do wrong."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import smtplib
import sqlite3
import stat
import time
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.contracts.alarms import Alarm, Incident
from bus.notify.delivery import NoticeDelivery
from bus.notify.mail import MailServer
from bus.notify.notice_metrics import NoticeMetrics
from bus.notify.notice_text import NoticeText, notice_text
from bus.notify.notifiers import (
    CommandNotifier,
    LogNotifier,
    MailNotifier,
    NotifierError,
    SmsNotifier,
    WebhookNotifier,
    incident_notifiers,
    notifiers,
    recipient_notifiers,
)
from bus.notify.settings import NoticeRecipient, NoticeSettings
from bus.runtime import wall_clock
from bus.settings import SiteSettings

SITE = SiteSettings()
HOUR_MS = 3_600_000
ALARM = Alarm(alarm_id='r:"1"&x={text}', rule_id="r", rule_name="被盗 \"A\" & B", severity="critical",
              record_id="1", kind="vehicle", checkpoint_id="c1", captured_at_ms=1_500_000_000_000,
              received_at_ms=1, raised_at_ms=1, plate_number="浙AWL999")  # fmt: skip
BODY = msgspec.json.encode(ALARM)


def text_of(body: bytes) -> NoticeText:
    return notice_text(body, "zh", SITE.tz)


class Hook:
    """A web server that gives the configured answers and records its requests."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.got.append((first, headers, body))
        status = self.answers.pop(0) if self.answers else 200
        writer.write(
            f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    served = Hook()
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/alarms"
    yield served
    server.close()


async def test_the_log_gets_one_line_of_json(tmp_path: Path) -> None:
    """It is appended to the file, whose folder is created."""
    path = tmp_path / "log" / "alarms.log"
    notifier = LogNotifier(path)
    for _ in range(2):
        await notifier.send("r:1", BODY)
    lines = path.read_text().splitlines()
    assert [json.loads(line)["alarm_id"] for line in lines] == [ALARM.alarm_id] * 2


async def test_what_a_killed_process_had_written_already_is_not_written_again(
    tmp_path: Path,
) -> None:
    """It died before it could note that the line was there. Its half line is none."""
    path = tmp_path / "alarms.log"
    await LogNotifier(path).send("r:1", BODY)
    with path.open("ab") as file:
        file.write(BODY[:20])
    again = LogNotifier(path)
    await again.send("r:1", BODY)
    assert path.read_bytes() == BODY + b"\n" + BODY[:20]
    await again.send("r:1", BODY)
    assert path.read_bytes() == BODY + b"\n" + BODY[:20] + b"\n" + BODY + b"\n"


async def test_a_webhook_is_signed_over_time_and_body(hook: Hook) -> None:
    """As the operations page tells its receiver to check it; the key of a retry is the same."""
    notifier = WebhookNotifier(hook.url, "key", 5)
    hook.answers = [503]
    with pytest.raises(NotifierError, match="503"):
        await notifier.send("r:浙1", BODY)
    await notifier.send("r:浙1", BODY)
    await notifier.close()
    (_, first, _), (_, headers, body) = hook.got
    assert first["idempotency-key"] == headers["idempotency-key"] == r"r:\u6d591"
    assert body == BODY
    signed = hmac.new(b"key", headers["databus-timestamp"].encode() + b"." + body, hashlib.sha256)
    assert headers["databus-signature"] == f"sha256={signed.hexdigest()}"
    assert abs(int(headers["databus-timestamp"]) - time.time()) < 60


async def test_a_webhook_without_a_secret_is_not_signed(hook: Hook) -> None:
    """There is nothing to check it by."""
    notifier = WebhookNotifier(hook.url, "", 5)
    await notifier.send("r:1", BODY)
    await notifier.close()
    assert "databus-signature" not in hook.got[0][1]


async def test_a_server_that_drips_its_answer_is_left_when_the_time_is_up() -> None:
    """A byte now and then would keep a client busy for ever that bounds each read only."""

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not writer.is_closing():
            writer.write(b"x: y\r\n")
            await asyncio.sleep(0.02)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    notifier = WebhookNotifier(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", "", 0.3)
    async with asyncio.timeout(10):
        with pytest.raises((NotifierError, TimeoutError)):
            await notifier.send("r:1", BODY)
    await notifier.close()
    server.close()


@pytest.mark.parametrize(
    ("headers", "template", "expected"),
    [
        ({}, '{"to":"1","msg":"{text}","id":"{id}"}', {"to": "1", "id": ALARM.alarm_id}),
        ({"Content-Type": "application/x-www-form-urlencoded", "X-Key": "k"}, "to=1&msg={text}&id={id}",
         {"to": "1", "id": ALARM.alarm_id}),
    ],
    ids=["json", "form"],
)  # fmt: skip
async def test_the_gateway_gets_the_request_that_was_configured(
    hook: Hook, headers: dict[str, str], template: str, expected: dict[str, str]
) -> None:
    """Whatever stands in a name or a plate stays a value, also what looks like a place."""
    settings = NoticeSettings(sms_url=hook.url + "?s={severity}", sms_headers=headers, sms_body=template)
    notifier = SmsNotifier(settings, text_of)
    await notifier.send(ALARM.alarm_id, BODY)
    await notifier.close()
    ((first, got, body),) = hook.got
    assert first.startswith("POST /alarms?s=critical ")
    found = json.loads(body) if not headers else dict(_pairs(body))
    assert found.pop("msg") == "[严重] 告警: 被盗 \"A\" & B 浙AWL999"
    assert found == expected
    assert got.get("x-key") == headers.get("X-Key")


def _pairs(body: bytes) -> list[tuple[str, str]]:
    from urllib.parse import parse_qsl

    return parse_qsl(body.decode(), strict_parsing=True)


class Mailbox:
    """Keeps what a real SMTP server of aiosmtpd has taken."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.answer = "250 OK"
        self.port = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            self.got.append(envelope)
        return self.answer


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    smtp = pytest.importorskip("aiosmtpd.smtp")
    box = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: smtp.SMTP(box), "127.0.0.1", 0)
    box.port = server.sockets[0].getsockname()[1]
    yield box
    server.close()


def mail_notifier(port: int, timeout_s: float = 5) -> MailNotifier:
    server = MailServer("127.0.0.1", port, "none", "", "", "bus@example.org",
                        ("a@example.org", "b@example.org"), timeout_s)  # fmt: skip
    return MailNotifier(server, text_of)


async def test_a_mail_reaches_its_recipients_and_a_retry_has_the_same_id(mailbox: Mailbox) -> None:
    """A server that is busy is tried again; mail programs show one id once."""
    notifier = mail_notifier(mailbox.port)
    mailbox.answer = "451 later"
    with pytest.raises(smtplib.SMTPException):
        await notifier.send(ALARM.alarm_id, BODY)
    mailbox.answer = "250 OK"
    for _ in range(2):
        await notifier.send(ALARM.alarm_id, BODY)
    first, second = (message_from_bytes(e.content, policy=policy.default) for e in mailbox.got)
    assert mailbox.got[0].rcpt_tos == ["a@example.org", "b@example.org"]
    assert first["Subject"] == "[严重] 告警: 被盗 \"A\" & B 浙AWL999"
    assert "卡口: c1" in first.get_content()
    assert first["Message-ID"] == second["Message-ID"]


async def test_a_recipient_who_asks_for_incidents_has_their_beginning_and_end_by_his_ways(
    mailbox: Mailbox, hook: Hook, tmp_path: Path
) -> None:
    """As the dispatcher stores and sends them; another recipient has neither, and the watch, which tells of
    its own incidents, has the same ways."""
    settings = NoticeSettings(
        alarm_log="-", mail_host="127.0.0.1", mail_port=mailbox.port, mail_security="none",
        mail_from="bus@example.org",
        recipients={
            "ops": NoticeRecipient(mail_to=("ops@example.org",), webhook_url=hook.url, incidents=True),
            "north": NoticeRecipient(mail_to=("north@example.org",)),
        },
    )  # fmt: skip
    ways = recipient_notifiers(SITE, settings)
    assert [one.name for one in incident_notifiers(SITE, settings)] == ["ops.mail", "ops.webhook"]
    store = OperationsStore(tmp_path / "operations.db", settings.plan([one.name for one in ways], SITE.tz))
    opened = Incident(incident_id="i", kind="latency", state="open", opened_at_ms=1_500_000_000_000)
    running = [
        asyncio.create_task(NoticeDelivery(
            store.notices, one, HOUR_MS, sqlite3.Error, metrics=NoticeMetrics(CollectorRegistry())
        ).run())
        for one in ways
    ]  # fmt: skip
    try:
        for count, incident in enumerate(
            (opened, msgspec.structs.replace(opened, state="closed", closed_at_ms=1_500_000_060_000)), 1
        ):
            store.apply(BatchChanges(incidents=[incident], now_ms=wall_clock.now_ms()))
            deadline = time.monotonic() + 60
            while not (len(mailbox.got) == len(hook.got) == count):
                assert time.monotonic() < deadline, f"{len(mailbox.got)} mails, {len(hook.got)} requests"
                await asyncio.sleep(0.01)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert [one.rcpt_tos for one in mailbox.got] == [["ops@example.org"]] * 2
    assert [json.loads(body)["state"] for _, _, body in hook.got] == ["open", "closed"]
    assert store.notices.due("north.mail", 1 << 60, 9) == []
    store.close()


async def test_a_mail_server_that_says_nothing_is_left_when_the_time_is_up() -> None:
    """The loop goes on meanwhile."""

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    notifier = mail_notifier(server.sockets[0].getsockname()[1], timeout_s=0.3)
    async with asyncio.timeout(10):
        with pytest.raises(OSError):
            await notifier.send("r:1", BODY)
    server.close()


def program(tmp_path: Path, text: str) -> tuple[str, ...]:
    path = tmp_path / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path), "a b; rm -rf $HOME", str(tmp_path))


async def test_a_command_gets_the_json_and_its_arguments_as_they_are(tmp_path: Path) -> None:
    """No shell reads them."""
    command = program(tmp_path, 'cat > "$2/in"; echo "$1" > "$2/arg"; echo "$DATABUS_NOTICE" > "$2/id"')
    await CommandNotifier(command, 5).send("r:1", BODY)
    assert (tmp_path / "in").read_bytes() == BODY
    assert (tmp_path / "arg").read_text() == "a b; rm -rf $HOME\n"
    assert (tmp_path / "id").read_text() == "r:1\n"


async def test_a_command_that_fails_is_tried_again_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    """With what it has started."""
    with pytest.raises(NotifierError, match="ended with 3"):
        await CommandNotifier(program(tmp_path, "exit 3"), 5).send("r:1", BODY)
    hanging = program(tmp_path, 'echo $$ > "$2/pid"; sleep 600 & echo $! >> "$2/pid"; wait')
    with pytest.raises(NotifierError, match="took over"):
        await CommandNotifier(hanging, 0.5).send("r:1", BODY)
    pids = (tmp_path / "pid").read_text().split()
    async with asyncio.timeout(10):
        while any(_lives(pid) for pid in pids):
            await asyncio.sleep(0.01)
    with pytest.raises(OSError):
        await CommandNotifier(("/no/such/program",), 5).send("r:1", BODY)


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_only_configured_notifiers_exist(tmp_path: Path) -> None:
    """There is no webhook without an address, and no log if it is switched off."""
    site = SiteSettings(data_dir=str(tmp_path))
    assert [n.name for n in notifiers(site, NoticeSettings())] == ["log"]
    assert notifiers(site, NoticeSettings(alarm_log="-")) == []
    everything = NoticeSettings(
        webhook_url="http://127.0.0.1:1/", mail_host="h", mail_from="a@b.c", mail_to=("d@e.f",),
        sms_url="http://127.0.0.1:1/", command=("true",),
    )  # fmt: skip
    found = notifiers(site, everything)
    assert [n.name for n in found] == ["log", "webhook", "mail", "sms", "command"]
    for one in found:
        await one.close()


def test_the_signature_is_the_documented_one() -> None:
    """A receiver in another language computes the same: printf '1700000000.{}' | openssl dgst."""
    from bus.notify.notifiers import signature

    expected = base64.b16encode(hmac.digest(b"k", b"1700000000.{}", "sha256")).decode().lower()
    assert signature("k", "1700000000", b"{}") == f"sha256={expected}"
