"""No route holds up the event loop: what one turn of it may do is bounded, whatever is asked.

Judged by work, not by time: the lines of Python that one callback of the loop runs, and the bytes
that it hands over. Fifty milliseconds are some 500,000 lines.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastapi import FastAPI
from planted_faces import face_id, plant_faces

from bus.contracts.commands import WatchCommand
from bus.contracts.register import Checkpoint, Device, District, Register, encode_register
from monitor.api.services import ConsoleServices
from monitor.http_client import prepare

pytestmark = pytest.mark.slow
RULES, CHECKPOINTS = 100_000, 20_000
MOST_LINES, MOST_BYTES = 60_000, 1 << 20
NEEDED = {
    "/api/quality/hour": "?at=2026-11-28", "/api/plates": "?contains=A", "/api/evidence/records": "?plate=A00000",
    "/api/faces": f"?record={face_id(0)}&limit=1000",
}  # fmt: skip
HEAVY = ("/api/watch?limit=500", "/api/register", "/api/places?text=nowhere", "/metrics")


@pytest.fixture
def services(services: ConsoleServices, data_path: Path, filled: tuple[Path, int]) -> ConsoleServices:
    """Hundreds of faces resemble one."""
    plant_faces(data_path, filled[1], 1_000)
    return services


class TurnsOfTheLoop:
    """Counts the lines that each callback of the loop runs, in all frames below it."""

    def __init__(self) -> None:
        self.most, self.where, self._lines = 0, "", 0

    def run(self, handle: Handle, original: Any) -> None:
        self._lines = 0
        sys.settrace(self._call)
        try:
            original(handle)
        finally:
            sys.settrace(None)
            if self._lines > self.most:
                self.most, self.where = self._lines, repr(handle)

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace = self._line
        return self._line

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines += 1
        return self._line


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnsOfTheLoop]:
    turns, original = TurnsOfTheLoop(), Handle._run
    with monkeypatch.context() as patch:
        patch.setattr(Handle, "_run", lambda handle: turns.run(handle, original))
        yield turns


def fill(services: ConsoleServices) -> None:
    """A city: its places, and a national watch list."""
    for number in range(RULES):
        plate = {"plate_number": [f"\u6d59A{number:05d}"]}
        services.hub.live.rules.apply(
            WatchCommand(rule_id=f"w-{number}", op="put", version=number, name=f"{number}", match=plate)
        )
    places = range(CHECKPOINTS)
    register = Register(
        districts=(District(district_id="d", name="D", name_en="D"),),
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{n}", name=f"C{n}", name_en=f"C{n}", district_id="d",
                       latitude=30.0, longitude=120.0)
            for n in places
        ),
        devices=tuple(
            Device(camera_ip=f"10.0.{n >> 8}.{n & 255}", checkpoint_id=f"c{n}", kind="vehicle")
            for n in places
        ),
    )  # fmt: skip
    (Path(services.site.data_path) / "register.json").write_bytes(encode_register(register))


def asked(app: FastAPI) -> list[str]:
    """Every address that can be read without a name of something, from the API's own document."""
    found = app.openapi()["paths"]
    paths = [path for path, verbs in found.items() if "get" in verbs and "{" not in path]
    return [path + NEEDED.get(path, "") for path in paths if not path.startswith(("/login", "/auth"))]


async def test_no_route_does_more_in_one_turn_than_others_can_wait_for(
    app: FastAPI, services: ConsoleServices, as_role: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 rules in one answer made every other operator wait for sixteen seconds."""
    fill(services)
    client, faults = as_role(), {}
    services.register.read()
    prepare()  # as the application does before it answers
    for address in asked(app):
        with measured(monkeypatch) as turns:
            heavy = [asyncio.create_task(client.get(one)) for one in HEAVY]
            reply = await client.get(address)
            await asyncio.gather(*heavy)
        assert reply.status_code in (200, 404, 503), (address, reply.text)
        if turns.most > MOST_LINES:
            faults[address] = f"{turns.most} lines in {turns.where}"
    assert faults == {}


async def test_an_answer_is_handed_over_in_pieces(
    app: FastAPI, services: ConsoleServices, as_role: Any
) -> None:
    """A server compresses and writes a piece in one turn."""
    fill(services)
    pieces: dict[str, int] = {}

    async def spy(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            path = scope["path"]
            pieces[path] = max(pieces.get(path, 0), len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, sent)

    client = as_role()
    client._transport.app = spy
    for address in asked(app):
        await client.get(address)
    assert pieces["/api/register"] > 100_000
    assert {path: size for path, size in pieces.items() if size > MOST_BYTES} == {}
