"""The child process: it does what it is asked, and no death of either side leaves anything behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from broker.cleaner_process import messages, real
from broker.cleaner_process.messages import Answer, MessageError, Order, answer_of, order_of
from broker.cleaner_process.port import FailureKind, RequestFailed
from broker.cleaner_process.real import RealCleanerProcess
from broker.cleaner_process.real_child import NICENESS, RateLimit

ROOT = Path(__file__).parents[3]
ECHO = "tests.broker.cleaner_process.echo_child"
Story = Callable[[RealCleanerProcess], Awaitable[None]]


def play(story: Story) -> None:
    """On the loop of production, the process stopped at the end."""

    async def main() -> None:
        process = RealCleanerProcess(ECHO)
        try:
            await story(process)
        finally:
            await process.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def request(*steps: object) -> bytes:
    return json.dumps(steps).encode()


async def reports(process: RealCleanerProcess, *steps: object) -> list[list[object]]:
    return [json.loads(body) async for body in process.run(request(*steps))]


async def failure(process: RealCleanerProcess, *steps: object) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await reports(process, *steps)
    return caught.value


async def first(process: RealCleanerProcess, *steps: object) -> int:
    """Begin a request in the background and give the pid it reports."""
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def listen() -> None:
        async for body in process.run(request(*steps)):
            if not told.done():
                told.set_result(json.loads(body)[1])

    task = asyncio.create_task(listen())
    task.add_done_callback(lambda ended: ended.exception() if not ended.cancelled() else None)
    return await told


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return state != "Z"


async def until_gone(pid: int) -> None:
    while is_alive(pid):
        await asyncio.sleep(0.01)


def test_reports_come_in_their_order_from_another_process_of_low_priority() -> None:
    async def story(process: RealCleanerProcess) -> None:
        assert process.pid is None
        told = await reports(process, "a", "b", "c")
        assert [step for step, *_ in told] == ["a", "b", "c"]
        assert {pid for _, pid, _ in told} == {process.pid} != {os.getpid()}
        assert {nice for *_, nice in told} == {min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, 19)}

    play(story)


@pytest.mark.slow
def test_requests_run_beside_each_other_in_one_process() -> None:
    async def story(process: RealCleanerProcess) -> None:
        waiting = await first(process, "a", "wait")
        told = await reports(process, "b", "c")
        assert [pid for _, pid, _ in told] == [waiting, waiting]

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("full", FailureKind.DISK_FULL), ("broken disk", FailureKind.DISK),
        ("unreadable", FailureKind.REFUSED), ("bug", FailureKind.BROKEN),
    ],
)
def test_a_failed_request_says_why_and_the_process_serves_on(step: str, kind: FailureKind) -> None:
    async def story(process: RealCleanerProcess) -> None:
        error = await failure(process, "a", step)
        assert error.kind is kind
        assert kind is not FailureKind.BROKEN or "ZeroDivisionError: a bug" in str(error)
        pid = process.pid
        assert [found for _, found, _ in await reports(process, "b")] == [pid]

    play(story)


def test_a_request_too_long_for_a_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real, "MAX_LINE_BYTES", 100)

    async def story(process: RealCleanerProcess) -> None:
        assert (await failure(process, "a" * 60)).kind is FailureKind.REFUSED
        assert process.pid is None

    play(story)


@pytest.mark.slow
def test_who_stops_listening_cancels_and_the_process_serves_on() -> None:
    async def story(process: RealCleanerProcess) -> None:
        async with aclosing(_begun(process, "a", "wait")) as told:
            async for _ in told:
                break
        assert [step for step, *_ in await reports(process, "b")] == ["b"]

    play(story)


def _begun(process: RealCleanerProcess, *steps: object) -> AsyncGenerator[bytes, None]:
    return process.run(request(*steps))


@pytest.mark.slow
def test_a_killed_process_fails_its_requests_and_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(real, "FIRST_REST_S", 0.0)

    async def story(process: RealCleanerProcess) -> None:
        pid = await first(process, "a", "wait")
        waiting = asyncio.create_task(failure(process, "wait"))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        assert (await waiting).kind is FailureKind.DIED
        [[_, again, _]] = await reports(process, "b")
        assert again != pid

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["die", "babble"])
def test_a_process_that_dies_or_babbles_rests_before_it_is_started_again(step: str) -> None:
    async def story(process: RealCleanerProcess) -> None:
        assert (await failure(process, step, "wait")).kind is FailureKind.DIED
        error = await failure(process, "b")
        assert error.kind is FailureKind.DIED
        assert "rests" in str(error)

    play(story)


def test_each_death_in_a_row_doubles_the_rest_up_to_a_bound() -> None:
    process = RealCleanerProcess(ECHO)
    rests = []
    for _ in range(9):
        process._count_death()
        rests.append(round(process._rests_until - real.time.monotonic()))
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.slow
def test_without_work_the_process_ends_and_comes_back_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(real, "IDLE_S", 0.0)

    async def story(process: RealCleanerProcess) -> None:
        [[_, pid, _]] = await reports(process, "a")
        await until_gone(int(str(pid)))
        assert process.pid is None
        [[_, again, _]] = await reports(process, "b")
        assert again != pid

    play(story)


@pytest.mark.slow
def test_a_stop_ends_the_process_and_fails_what_runs() -> None:
    async def story(process: RealCleanerProcess) -> None:
        pid = await first(process, "a", "wait")
        waiting = asyncio.create_task(failure(process, "b", "wait"))
        await asyncio.sleep(0)
        await process.stop()
        assert (await waiting).kind is FailureKind.DIED
        assert not is_alive(pid)
        assert (await failure(process, "c")).kind is FailureKind.DIED

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_ends_with_its_broker_however_that_dies(number: signal.Signals) -> None:
    broker = subprocess.Popen(
        [sys.executable, "-m", "tests.broker.cleaner_process.broker_with_child"],
        stdout=subprocess.PIPE, cwd=ROOT, text=True,
    )  # fmt: skip
    try:
        assert broker.stdout is not None
        pid = int(broker.stdout.readline())
        assert is_alive(pid)
        broker.send_signal(number)
        broker.wait()
        asyncio.run(asyncio.wait_for(until_gone(pid), 30))
    finally:
        broker.kill()
        broker.wait()


def test_all_threads_share_one_rate() -> None:
    limit = RateLimit()
    assert limit.seconds_for(1 << 30, 0.0) == 0.0
    limit.bytes_per_second = 1000.0
    assert limit.seconds_for(500, 10.0) == pytest.approx(0.5)
    assert limit.seconds_for(500, 10.0) == pytest.approx(1.0)
    assert limit.seconds_for(500, 20.0) == pytest.approx(0.5)


ORDERS = st.one_of(
    st.builds(messages.RunRequest, st.integers(0, 1 << 62), st.just(messages.Raw(b'{"a":[1,"\\n"]}'))),
    st.builds(messages.CancelRequest, st.integers(0, 1 << 62)),
    st.builds(messages.RateRequest, st.floats(1e-3, 1e300)),
)
ANSWERS = st.one_of(
    st.builds(messages.RequestReport, st.integers(0, 1 << 62), st.just(messages.Raw(b"[1]"))),
    st.builds(messages.RequestEnd, st.integers(0, 1 << 62), st.sampled_from([None, *FailureKind]), st.text()),
)


@given(ORDERS)
def test_an_order_is_one_line_and_comes_back(order: Order) -> None:
    line = messages.encode(order)
    assert line.count(b"\n") == 1
    assert messages.encode(order_of(line)) == line


@given(ANSWERS)
def test_an_answer_is_one_line_and_comes_back(answer: Answer) -> None:
    line = messages.encode(answer)
    assert line.count(b"\n") == 1
    assert messages.encode(answer_of(line)) == line


@given(st.one_of(st.binary(), st.text().map(str.encode), ORDERS.map(messages.encode).map(bytes.upper)))
def test_any_other_line_is_refused(line: bytes) -> None:
    for parse in (order_of, answer_of):
        with pytest.raises(MessageError):
            parse(line)  # type: ignore[operator]
