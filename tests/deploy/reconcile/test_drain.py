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


def test_it_is_waited_as_long_as_less_is_left_than_ever_before() -> None:
    """A stage that gets further and back, as one that begins anew, does not count as progress."""
    limit = drain.PendingLimit(1000, 60)
    assert limit.end_s == 1060
    for now_s, count, end_s in (
        (1010, 500, 1070), (1050, 500, 1070), (1060, None, 1070), (1065, 499, 1125),
        (1100, 700, 1125), (1120, 600, 1125), (1124, 0, 1184), (1180, 0, 1184),
    ):  # fmt: skip
        limit.on_pending(now_s, count)
        assert limit.end_s == end_s


def test_no_progress_is_waited_for_without_end() -> None:
    limit = drain.PendingLimit(0, 60)
    for now_s in range(400):
        limit.on_pending(now_s, 1000 - now_s)
    assert limit.end_s == 60 * drain.MOST_IDLE_PERIODS


async def test_what_stands_still_is_given_up_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = drain.PendingWork(by_stage={"ingest": 7, "store": None})
    monkeypatch.setattr(drain, "pending_work", lambda _: pending)
    said: list[str] = []
    settings = load(None, [f"site.data_dir={tmp_path}"], {})
    assert not await drain.drain(settings, 0.01, said.append, asyncio.Event())
    assert said[-1].startswith("not drained within")
    assert said[-1].endswith("ingest 7, store ?")
