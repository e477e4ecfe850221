"""How soon an alarm is on the screens of operators, and how soon what they do about it is answered.

In: how many sessions. Out: milliseconds from the send of an alarm to `event.alarm` until each
session's browser is told, p95 over sessions and alarms; from a request to its answer, p50 and p99.
Never: a part of the product replaced; a browser's own drawing.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx
import msgspec
import socketio  # type: ignore[import-untyped]

from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.client.kafka.producer import Producer
from bus.contracts.alarm_states import AlarmRequest
from bus.contracts.alarms import Alarm
from bus.contracts.topics import EVENT_ALARM
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.bench.targets import broker_flags, role, wait_for_port
from deploy.errors import OperatorError
from deploy.servers.process import free_port
from deploy.topics import make_topics
from monitor.accounts.one_time_links import issue_one_time_link

SCREEN, ANSWER_P50, ANSWER_P99 = "alarms-screen", "alarms-answer-p50", "alarms-answer-p99"
NAMES = (SCREEN, ANSWER_P50, ANSWER_P99)
SESSIONS, ALARMS, REQUESTS = 50, 40, 200
PAUSE_S, READY_S = 0.25, 60.0
_CLIENT = re.compile(r"client_id\W{1,20}([0-9a-f-]{36})")


def screen_figures(sessions: int = SESSIONS) -> dict[str, float]:
    """One run, with a broker, a dispatcher and a console of its own; milliseconds."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        folder, broker_port, port = Path(name), free_port(), free_port()
        flags = [*broker_flags(broker_port, free_port()), f"console.port={port}",
                 f"dispatcher.metrics_port={free_port()}"]  # fmt: skip
        bus = BusSettings(bootstrap_servers=f"127.0.0.1:{broker_port}")
        with role("broker", folder, flags) as broker:
            wait_for_port(broker, broker_port, folder)
            make_topics(bus)
            with role("dispatcher", folder, flags), role("console", folder, flags) as console:
                wait_for_port(console, port, folder)
                found = _answers(bus)
                return found | asyncio.run(_screens(bus, folder, port, sessions))


def _answers(bus: BusSettings) -> dict[str, float]:
    """One after the other, each on an alarm of its own."""
    took: list[float] = []
    with closing(CommandClient(bus, "main", "bench")) as client:
        for number in range(REQUESTS + 1):
            request = AlarmRequest(
                alarm_id=f"bench:{number}", op="take", account="bench",
                command_id=new_command_id(),
            )  # fmt: skip
            begun_s = time.perf_counter()
            answer = client.request(request, READY_S)
            took.append(1000 * (time.perf_counter() - begun_s))
            if answer.state != "accepted":
                raise OperatorError(f"a request is refused: {answer.text}")
    settled = took[1:]  # the first one waits for the decider to begin
    return {ANSWER_P50: _share(settled, 0.5), ANSWER_P99: _share(settled, 0.99)}


async def _screens(
    bus: BusSettings, folder: Path, port: int, sessions: int
) -> dict[str, float]:
    screens = [await BenchSession.open(folder, port) for _ in range(sessions)]
    producer, sent = Producer(bus, client_id="bench", overrides={"linger.ms": 0}), {}
    try:
        await _begin(producer, screens)
        for number in range(ALARMS):
            alarm = _alarm(number)
            sent[alarm.alarm_id] = time.perf_counter()
            producer.send(EVENT_ALARM, msgspec.json.encode(alarm), key="bench")
            await asyncio.sleep(PAUSE_S)
        await asyncio.sleep(1)
        waited = [
            1000 * (at_s - sent[alarm_id])
            for one in screens for alarm_id, at_s in one.received_s.items() if alarm_id in sent
        ]  # fmt: skip
        if len(waited) < sessions * ALARMS:
            raise OperatorError(f"{len(waited)} of {sessions * ALARMS} alarms were shown")
        return {SCREEN: _share(waited, 0.95)}
    finally:
        producer.close(0)
        await asyncio.gather(*(one.close() for one in screens))


async def _begin(producer: Producer, screens: Sequence[BenchSession]) -> None:
    """One alarm that is not measured: the producer of a dispatcher has long been connected."""
    first = _alarm(ALARMS)
    producer.send(EVENT_ALARM, msgspec.json.encode(first), key="bench")
    until_s = time.monotonic() + READY_S
    while not all(first.alarm_id in one.received_s for one in screens):
        if time.monotonic() > until_s:
            raise OperatorError("the first alarm was not shown")
        await asyncio.sleep(PAUSE_S)


class BenchSession:
    """An open page *live*, as its browser hears from the console. Invariant: `received_s` has when
    each alarm's row came."""

    def __init__(self) -> None:
        self.received_s: dict[str, float] = {}
        self._socket = socketio.AsyncClient(reconnection=False)
        self._socket.on("run_javascript", self._on_script)

    @classmethod
    async def open(cls, folder: Path, port: int) -> BenchSession:
        """Logged in by a one-time link. Raises `OperatorError`."""
        found, base = cls(), f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=base, timeout=READY_S) as client:
            await client.get(issue_one_time_link(folder, base_url=""))
            page = await client.get("/live", follow_redirects=True)
            named = _CLIENT.search(page.text)
            if named is None:
                raise OperatorError(f"/live names no client: HTTP {page.status_code}")
            cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        await found._socket.connect(
            base, socketio_path="/_nicegui_ws/socket.io", transports=["websocket"],
            headers={"Cookie": cookies},
        )  # fmt: skip
        handshake = {
            "client_id": named.group(1), "tab_id": str(uuid.uuid4()),
            "document_id": str(uuid.uuid4()), "old_tab_id": None, "next_message_id": 0,
        }  # fmt: skip
        if not await found._socket.call("handshake", handshake, timeout=READY_S):
            raise OperatorError("the console knows no such page")
        return found

    def _on_script(self, message: dict[str, object]) -> None:
        code = str(message.get("code"))
        if "databus.prepend" in code:
            for alarm_id in re.findall(r'"id": "(screen:\d+)"', code):
                self.received_s.setdefault(alarm_id, time.perf_counter())

    async def close(self) -> None:
        """Leave."""
        await self._socket.disconnect()


def _alarm(number: int) -> Alarm:
    at_ms = now_ms()
    return Alarm(
        alarm_id=f"screen:{number}", rule_id="screen", rule_name="bench", severity="warning",
        record_id=str(number), kind="vehicle", checkpoint_id="c", captured_at_ms=at_ms,
        received_at_ms=at_ms, raised_at_ms=at_ms, plate_number="浙A12345",
    )  # fmt: skip


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
