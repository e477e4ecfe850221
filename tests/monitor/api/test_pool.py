"""Questions to a store off the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from monitor.api.pool import MAX_WAITING, Away, ReaderPool


class Reader:
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
    Reader.opened = 0


async def test_a_reader_is_used_in_the_thread_that_opened_it() -> None:
    """SQLite wants it so; and the loop is never that thread."""
    pool = ReaderPool("x", Reader, threads=2)
    answers = await asyncio.gather(
        *(pool.ask(lambda r: r.thread == threading.get_ident()) for _ in range(20))
    )
    assert all(answers)
    assert 1 <= Reader.opened <= 2
    assert threading.get_ident() != await pool.ask(lambda r: r.thread)
    pool.close()


async def test_after_a_failure_the_reader_is_closed_and_another_one_opened() -> None:
    """The reason is kept for the page until the next good answer."""
    pool = ReaderPool("x", Reader, threads=1)
    seen: list[Reader] = []

    def fail(reader: Reader) -> None:
        seen.append(reader)
        raise OSError("disk gone")

    with pytest.raises(Away, match="disk gone"):
        await pool.ask(fail)
    assert seen[0].closed
    assert "disk gone" in pool.away
    assert await pool.ask(lambda r: r is not seen[0])
    assert pool.away == ""
    pool.close()


async def test_a_slow_question_does_not_stop_the_loop_and_has_an_end() -> None:
    """The loop ticks on while a store thinks."""
    pool, free = ReaderPool("x", Reader, threads=1), threading.Event()
    with pytest.raises(Away, match="no answer"):
        await pool.ask(lambda r: free.wait(5), timeout_seconds=0.05)
    free.set()
    assert await pool.ask(lambda r: 1) == 1
    pool.close()


async def test_the_line_before_a_store_is_bounded() -> None:
    """More would only hide that it cannot follow."""
    pool, free = ReaderPool("x", Reader, threads=1), threading.Event()
    waiting = [asyncio.create_task(pool.ask(lambda r: free.wait(10))) for _ in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Away, match="waiting"):
        await pool.ask(lambda r: 1)
    free.set()
    await asyncio.gather(*waiting)
    pool.close()
