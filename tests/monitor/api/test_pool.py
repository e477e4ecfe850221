"""Questions to a store off the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from monitor.api.pool import MAX_WAITING, QueryUnavailable, ReaderPool


class FakeReader:
    """Knows in which thread it was opened, and how often readers were."""

    opened = 0

    def __init__(self) -> None:
        type(self).opened += 1
        self.thread = threading.get_ident()
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def none_opened() -> None:
    FakeReader.opened = 0


async def test_a_reader_is_used_in_the_thread_that_opened_it() -> None:
    """SQLite wants it so; and the loop is never that thread."""
    pool = ReaderPool("x", FakeReader, threads=2)
    answers = await asyncio.gather(
        *(pool.run(lambda r: r.thread == threading.get_ident()) for _ in range(20))
    )
    assert all(answers)
    assert 1 <= FakeReader.opened <= 2
    assert threading.get_ident() != await pool.run(lambda r: r.thread)
    pool.close()


async def test_after_a_failure_the_reader_is_closed_and_another_one_opened() -> None:
    """The reason is kept for the page until the next good answer."""
    pool = ReaderPool("x", FakeReader, threads=1)
    seen: list[FakeReader] = []

    def fail(reader: FakeReader) -> None:
        seen.append(reader)
        raise OSError("disk gone")

    with pytest.raises(QueryUnavailable, match="disk gone"):
        await pool.run(fail)
    assert seen[0].closed
    assert "disk gone" in pool.unavailable
    assert await pool.run(lambda r: r is not seen[0])
    assert pool.unavailable == ""
    pool.close()


async def test_a_slow_question_does_not_stop_the_loop_and_has_an_end() -> None:
    """The loop ticks on while a store thinks."""
    pool, free = ReaderPool("x", FakeReader, threads=1), threading.Event()
    with pytest.raises(QueryUnavailable, match="no answer"):
        await pool.run(lambda r: free.wait(5), timeout_seconds=0.05)
    free.set()
    assert await pool.run(lambda r: 1) == 1
    pool.close()


async def test_the_line_before_a_store_is_bounded() -> None:
    """More would only hide that it cannot follow."""
    pool, free = ReaderPool("x", FakeReader, threads=1), threading.Event()
    waiting = [asyncio.create_task(pool.run(lambda r: free.wait(10))) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(QueryUnavailable, match="waiting"):
        await pool.run(lambda r: 1)
    free.set()
    await asyncio.gather(*waiting)
    pool.close()
