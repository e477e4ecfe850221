"""Incidents from two places, and the sign of life of the watch."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from bus.contracts.alarms import Incident
from monitor.api import watch_sign
from monitor.api.views import newest_incidents
from monitor.api.watch_sign import WatchSign


def test_incidents_of_store_and_topic_are_shown_once_each_with_their_end() -> None:
    """The dispatcher, which fills the store, is what the watch speaks of."""

    def one(name: str, state: Literal["open", "closed"], opened_ms: int) -> Incident:
        return Incident(incident_id=name, kind="away", state=state, opened_at_ms=opened_ms)

    stored = [one("both", "open", 2), one("ended", "closed", 1)]
    live = [one("both", "closed", 2), one("ended", "open", 1), one("new", "open", 3)]
    found = newest_incidents(stored, live)
    assert [(i.incident_id, i.state) for i in found] == [
        ("new", "open"), ("both", "closed"), ("ended", "closed")
    ]  # fmt: skip


async def test_the_sign_of_life_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alive, then silent: what the header shows."""
    monkeypatch.setattr(watch_sign, "REFRESH_S", 0.01)
    answers = iter(["", "no sign of life for 40 s"])
    sign = WatchSign(lambda: next(answers, "no sign of life for 41 s"))
    task = asyncio.create_task(sign.run())
    async with asyncio.timeout(10):
        while "41 s" not in sign.unavailable:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
