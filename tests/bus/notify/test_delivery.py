"""A slow notifier delays no other; a failed notice is tried until it is delivered or too old."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bus.notify import delivery
from bus.notify.delivery import LONGEST_PAUSE_MS, NoticeDelivery, pause_after_ms
from bus.notify.notice_metrics import NoticeMetrics
from bus.notify.notice_plan import NoticePlan
from bus.runtime import wall_clock
from tests.bus.notify.notice_file import NoticeFile

HOUR_MS = 3_600_000


class ListedNotices:
    """A notifier that fails as often as it is told to, or hangs."""

    def __init__(self, name: str, failures: int = 0, *, hangs: bool = False) -> None:
        self.name = name
        self.sent: list[str] = []
        self.attempts = 0
        self._failures = failures
        self._hangs = hangs

    async def send(self, subject: str, body: bytes) -> None:
        self.attempts += 1
        if self._hangs:
            await asyncio.Event().wait()
        if self.attempts <= self._failures:
            raise OSError("refused")
        self.sent.append(subject)

    async def close(self) -> None: ...


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def delivered(
    path: Path, notifiers: Sequence[ListedNotices], condition: Callable[[], bool],
    *, age_ms: int = 0, give_up_ms: int = HOUR_MS,
) -> NoticeFile:  # fmt: skip
    file = NoticeFile(path, NoticePlan(tuple(one.name for one in notifiers)))
    for name in "ab":
        file.add(f"{name}:open", wall_clock.now_ms() - age_ms)
    running = [
        asyncio.create_task(NoticeDelivery(file.notices, one, give_up_ms, sqlite3.Error, metrics=NoticeMetrics(CollectorRegistry())).run())
        for one in notifiers
    ]
    await until(condition)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return file


async def test_a_notifier_that_hangs_delays_no_other(tmp_path: Path) -> None:
    """The one never returns; the other has both notices."""
    slow, quick = ListedNotices("slow", hangs=True), ListedNotices("quick")
    file = await delivered(tmp_path / "notices.db", [slow, quick], lambda: len(quick.sent) == 2)
    assert quick.sent == ["a:open", "b:open"]
    assert len(file.notices.due("slow", 1 << 60, 10)) == 2
    file.close()


async def test_a_notice_is_tried_until_it_is_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More often than any count of attempts; each is delivered once."""
    monkeypatch.setattr(delivery, "FIRST_PAUSE_MS", 1)
    monkeypatch.setattr(delivery, "IDLE_S", 0.02)
    one = ListedNotices("one", failures=9)
    file = await delivered(tmp_path / "notices.db", [one], lambda: len(one.sent) == 2)
    assert sorted(one.sent) == ["a:open", "b:open"]
    assert file.notices.due("one", 1 << 60, 10) == []
    file.close()


async def test_a_notice_that_is_too_old_is_given_up(tmp_path: Path) -> None:
    """It was tried first."""
    one = ListedNotices("one", failures=1_000)
    file = await delivered(
        tmp_path / "notices.db", [one], lambda: one.attempts >= 2, age_ms=2 * HOUR_MS
    )
    await until(lambda: file.notices.due("one", 1 << 60, 10) == [])
    assert (one.sent, one.attempts) == ([], 2)
    file.close()


def test_pauses_double_up_to_a_minute() -> None:
    """For any number of attempts."""
    pauses = [pause_after_ms(attempts) for attempts in (1, 2, 3, 6, 7, 100)]
    assert pauses == [1_000, 2_000, 4_000, 32_000, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS]


async def test_a_notice_that_was_sent_is_not_sent_again_while_its_file_cannot_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk each was sent once a second. Those behind it are sent, too."""
    monkeypatch.setattr(delivery, "IDLE_S", 0.02)
    file = NoticeFile(tmp_path / "notices.db", NoticePlan(("one",)))
    file.db.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON notices BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    one = ListedNotices("one")
    for name in "ab":
        file.add(name, wall_clock.now_ms())
    errors: list[str] = []
    monkeypatch.setattr(delivery.log, "error", lambda text, *_: errors.append(text))
    task = asyncio.create_task(
        NoticeDelivery(file.notices, one, HOUR_MS, sqlite3.Error, metrics=NoticeMetrics(CollectorRegistry())).run()
    )
    await until(lambda: len(errors) > 20)  # many turns
    assert one.sent == ["a", "b"]
    file.db.execute("DROP TRIGGER refuse")
    await until(lambda: file.notices.due("one", 1 << 60, 10) == [])
    assert one.sent == ["a", "b"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    file.close()


async def test_without_an_age_a_notice_is_never_given_up_but_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook that is back after two days is told everything; the file does not grow for ever."""
    monkeypatch.setattr(delivery, "MAX_WAITING", 1)
    monkeypatch.setattr(delivery, "FIRST_PAUSE_MS", 1)
    monkeypatch.setattr(delivery, "IDLE_S", 0.02)
    one = ListedNotices("one", failures=5)
    file = await delivered(
        tmp_path / "notices.db", [one], lambda: len(one.sent) == 1, age_ms=48 * HOUR_MS, give_up_ms=0
    )
    assert one.sent == ["b:open"]
    outcomes = file.db.execute("SELECT subject, outcome FROM notices ORDER BY id").fetchall()
    assert outcomes[0] == ("a:open", "given up: too many wait")
    file.close()
