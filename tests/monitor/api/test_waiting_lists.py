"""How many lists wait is asked once for all pages, and only while a page is open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import ListCommand
from monitor.api import waiting_lists
from monitor.api.pool import ReaderPool
from monitor.api.waiting_lists import WaitingListPoll

LIMIT_S = 60


class CountedReader:
    """Of lists; counts its questions."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    def proposals(self, now_ms: int) -> Sequence[ListProposal]:
        self.asked += 1
        if self.is_away:
            raise OSError("away")
        text = ListCommand(list_id="a", op="put")
        return [ListProposal(list_id="a", version=now_ms, text=text, decided_at_ms=now_ms, command_id="c")] * 2

    def close(self) -> None:
        """Nothing is open."""


async def settled(poll: WaitingListPoll, wanted: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while poll.count != wanted:
            await asyncio.sleep(0.01)


async def test_pages_share_one_question_and_none_is_asked_without_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_lists, "PERIOD_SECONDS", 0.01)
    reader = CountedReader()
    pool: ReaderPool[CountedReader] = ReaderPool("lists", lambda: reader, threads=1)
    poll = WaitingListPoll(pool, lambda: 7)  # type: ignore[arg-type]
    running = asyncio.create_task(poll.run())
    try:
        for _ in range(20):
            await asyncio.sleep(0.005)
        assert reader.asked == 0
        await settled(poll, 2)
        reader.is_away = True
        asked = reader.asked
        async with asyncio.timeout(LIMIT_S):
            while reader.asked < asked + 3:
                await asyncio.sleep(0.01)
        assert poll.count == 2
        monkeypatch.setattr(waiting_lists, "WATCHED_SECONDS", 0.0)
        asked = reader.asked
        for _ in range(40):
            await asyncio.sleep(0.005)
        assert reader.asked <= asked + 1, "the one that was under way"
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=LIMIT_S)
        pool.close()
