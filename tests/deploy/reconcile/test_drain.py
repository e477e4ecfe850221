"""Waiting for what is on its way, and not waiting for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deploy.reconcile import drain
from deploy.settings.composed import load


async def test_whoever_does_not_want_to_wait_need_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the demo drains; before, it was ignored for three minutes, in which a role that
    cannot start takes nothing."""
    looks: list[object] = []
    hurry = asyncio.Event()

    def pending_work(settings: object) -> drain.PendingWork:
        looks.append(settings)
        if len(looks) == 2:
            loop.call_soon_threadsafe(hurry.set)
        return drain.PendingWork(by_stage={"ingest": 7})

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(drain, "pending_work", pending_work)
    said: list[str] = []
    settings = load(None, [f"site.data_dir={tmp_path}"], {})
    assert not await drain.drain(settings, 3600, said.append, hurry)
    assert said == ["draining: ingest 7", "draining: ingest 7", "not drained: ingest 7"]
    assert len(looks) == 2


async def test_it_ends_when_nothing_is_left_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once is not enough: a record may be between two stages."""
    left = iter([1, 0, 2, 0, 0])
    monkeypatch.setattr(
        drain, "pending_work", lambda _: drain.PendingWork(by_stage={"edge": next(left)})
    )
    settings = load(None, [f"site.data_dir={tmp_path}"], {})
    assert await drain.drain(settings, 3600, lambda _: None, asyncio.Event())
    assert list(left) == []
