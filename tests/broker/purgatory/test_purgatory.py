"""Waiting requests on the real loop: satisfied, expired, cancelled, forgotten."""

from __future__ import annotations

import asyncio
import gc
import weakref

from broker.clock.real import RealClock
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timer import Timer


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


def test_a_request_that_is_satisfied_at_once_is_never_kept() -> None:
    async def story() -> None:
        timer = Timer(RealClock())
        purgatory = Purgatory("fetch", timer)
        watch = purgatory.watch(["a"], 1000, lambda: True, lambda: None)
        assert watch.done
        assert len(purgatory) == 0
        assert len(timer) == 0

    run(story())


def test_waking_any_key_satisfies_and_forgets_the_request_under_all_keys() -> None:
    async def story() -> None:
        timer = Timer(RealClock())
        purgatory = Purgatory("fetch", timer)
        ready: list[bool] = []
        purgatory.watch(["a", "b"], 60_000, lambda: bool(ready), lambda: None)
        assert purgatory.wake("a") == 0
        assert purgatory.has("b")
        ready.append(True)
        assert purgatory.wake("b") == 1
        assert not purgatory.has("a")
        assert len(purgatory) == 0
        assert len(timer) == 0

    run(story())


def test_time_out_is_answered_once_and_not_early() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        timer = Timer(RealClock())
        purgatory = Purgatory("produce", timer)
        expired: asyncio.Future[float] = loop.create_future()
        began = loop.time()
        purgatory.watch(["a"], 30, lambda: False, lambda: expired.set_result(loop.time()))
        assert await asyncio.wait_for(expired, 60) - began >= 0.030
        assert purgatory.wake("a") == 0
        assert len(timer) == 0
        assert purgatory.expired == 1

    run(story())


def test_an_answered_request_releases_its_memory_even_if_its_watch_is_kept() -> None:
    class Request:
        """Represents the buffers that a request holds."""

    async def story() -> None:
        purgatory = Purgatory("fetch", Timer(RealClock()))
        request = Request()
        seen = weakref.ref(request)
        watch = purgatory.watch(["a"], 60_000, lambda r=request: False, lambda r=request: None)  # type: ignore[misc]
        del request
        assert purgatory.cancel(watch)
        assert not purgatory.cancel(watch)
        gc.collect()
        assert seen() is None

    run(story())


def test_a_request_that_completes_another_while_being_woken_answers_each_once() -> None:
    async def story() -> None:
        purgatory = Purgatory("join", Timer(RealClock()))
        answers: list[str] = []

        def second() -> bool:
            if not answers:
                return False
            answers.append("second")
            return True

        def first() -> bool:
            if not started:
                return False
            answers.append("first")
            purgatory.wake("b")
            return True

        started: list[bool] = []
        purgatory.watch(["a", "b"], 60_000, first, lambda: None)
        purgatory.watch(["a", "b"], 60_000, second, lambda: None)
        started.append(True)
        purgatory.wake("a")
        assert sorted(answers) == ["first", "second"]

    run(story())


def test_a_thousand_times_more_waiting_does_not_cost_more_per_request() -> None:
    """Counted in wheel buckets in use, not in time: the machine may be busy."""

    async def story() -> None:
        timer = Timer(RealClock())
        purgatory = Purgatory("fetch", timer)
        watches = [
            purgatory.watch([i], 30_000 + i % 5, lambda: False, lambda: None) for i in range(4_000)
        ]
        assert len(timer._wheel._in_use) <= 100
        for watch in watches:
            purgatory.cancel(watch)
        assert len(timer) == 0
        assert not purgatory._watchers

    run(story())


def test_an_earlier_deadline_added_later_still_comes_first() -> None:
    async def story() -> None:
        timer = Timer(RealClock())
        order: list[str] = []
        done = asyncio.Event()

        def late() -> None:
            order.append("late")
            done.set()

        timer.add(60, late)
        timer.add(5, lambda: order.append("early"))
        await asyncio.wait_for(done.wait(), 5)
        assert order == ["early", "late"]

    run(story())


def test_a_callback_that_fails_is_heard_by_the_loop() -> None:
    """As that of any timer: the process ends, see `bus.runtime.tasks`."""

    async def story() -> None:
        timer = Timer(RealClock())
        heard: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: heard.set_result(context["exception"])
        )

        def fail() -> None:
            raise RuntimeError("as a buggy handler would")

        timer.add(1, fail)
        assert str(await asyncio.wait_for(heard, 60)) == "as a buggy handler would"

    run(story())


def test_who_stays_hears_that_time_is_up_once_and_keeps_its_place() -> None:
    """If it were registered again, an older append would follow newer ones. Regression: a
    coordinator treated an older committed offset as the newest."""

    async def story() -> None:
        timer = Timer(RealClock())
        purgatory = Purgatory("produce", timer)
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done: list[str] = []
        is_stored = False

        def stored(name: str) -> bool:
            if is_stored:
                done.append(name)
            return is_stored

        purgatory.watch(
            ["a"], 1, lambda: stored("old"), lambda: late.set_result(None), keep_after_timeout=True
        )
        purgatory.watch(["a"], 60_000, lambda: stored("young"), lambda: None)
        await asyncio.wait_for(late, 60)
        assert len(purgatory) == 2
        is_stored = True
        assert purgatory.wake("a") == 2
        assert done == ["old", "young"]
        assert len(purgatory) == len(timer) == 0

    run(story())
