"""Two dispatchers: one works, the other stands by; every alarm once, whoever dies or is paused."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import httpx
import itsdangerous
import msgspec
import pytest

from alarm.dispatch.reader import OperationsReader
from alarm.preview import preview_piece
from alarm.settings import DispatcherSettings
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import EVENT_CANDIDATE
from bus.domain.policy import NO_POLICY
from bus.runtime import wall_clock
from ingest.store.open import open_store
from monitor.accounts.roles import EVERYBODY, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.services import build_services
from monitor.live.live_state import Delta
from monitor.settings import ConsoleSettings
from tests.alarm.dispatch.dispatch_world import (
    NOTICES,
    DispatcherProcess,
    DispatchWorld,
    candidate,
    ids,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

KILLED_S, STOPPED_S = 8.0, 1.0  # what a take-over may take
PAGE = 500
PACE_S = 0.02


class WatchedConsole:
    """A console's live pages and API, as they are wired in the product."""

    def __init__(self, world: DispatchWorld) -> None:
        self.services = build_services(
            world.site, world.bus, ConsoleSettings(),
            lambda: open_store(f"sqlite://{world.site.data_path}/store/records.db"),
            lambda: OperationsReader(world.path), lambda _: None, preview_piece, list, policy=NO_POLICY,
            alarms_a_minute=NOTICES.alarms_a_minute,  # each alarm a row: no digests
        )  # fmt: skip
        self.shown: Counter[str] = Counter()
        self.services.hub.add_listener(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        self.shown.update(alarm.alarm_id for alarm in delta.alarms)

    async def api(self) -> list[str]:
        """Every alarm that the API lists, page by page."""
        principal = ConsolePrincipal(name="guest", roles=EVERYBODY)
        sid = self.services.sessions.open(principal, guest=True)
        cookie = base64.b64encode(json.dumps({"sid": sid}).encode())
        signer = itsdangerous.TimestampSigner(self.services.secret)
        transport = httpx.ASGITransport(create_api(self.services))
        found, cursor = [], ""
        async with httpx.AsyncClient(transport=transport, base_url="http://console") as client:
            client.cookies.set("databus_console", signer.sign(cookie).decode())
            while True:
                question = {"limit": str(PAGE), "cursor": cursor}
                page = (await client.get("/api/alarms", params=question)).json()
                found += [row["alarm_id"] for row in page["rows"]]
                cursor = page["cursor"]
                if not cursor:
                    return sorted(found)


@asynccontextmanager
async def watched_console(world: DispatchWorld) -> AsyncIterator[WatchedConsole]:
    console = WatchedConsole(world)
    task = asyncio.create_task(console.services.hub.run())
    yield console
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for part in (console.services.records, console.services.alarms, console.services.account_writes,
                 console.services.account_store):  # fmt: skip
        part.close()


@asynccontextmanager
async def two_dispatchers(
    world: DispatchWorld,
) -> AsyncIterator[tuple[DispatcherProcess, DispatcherProcess]]:
    """The one that works, and the one that stands by."""
    first = world.spawn("first")
    await until(lambda: first.works, True)
    second = world.spawn("second")
    await until(lambda: second.says("dispatcher: ready"), True)
    try:
        yield first, second
    finally:
        first.end()
        second.end()


async def assert_each_once(world: DispatchWorld, console: WatchedConsole, count: int) -> None:
    """At the store, the notices, the API and the live pages."""
    expected = Counter(ids(range(count)))
    await until(lambda: expected - Counter(world.stored()), Counter())
    await until(lambda: expected - console.shown, Counter())
    await until(world.notified, count)
    assert console.shown - expected == Counter()
    assert Counter(await console.api()) == expected
    assert set(world.on_topic()) == set(expected)


async def send_until(world: DispatchWorld, is_over: asyncio.Event) -> int:
    """Candidates, each of a record of its own, up to fifty times a second; how many."""
    number, producer = 0, Producer(world.bus, client_id="test")
    while not is_over.is_set():
        producer.send(EVENT_CANDIDATE, msgspec.json.encode(candidate(number)), key="r")
        number += 1
        await asyncio.sleep(PACE_S)
    assert await asyncio.to_thread(producer.close) == 0
    return number


def longest_gap_s(world: DispatchWorld, since_ms: int) -> float:
    """The longest time without an alarm, from that moment on."""
    raised = [a.raised_at_ms for a in world.alarms_on_topic() if a.raised_at_ms >= since_ms]
    times = [since_ms, *sorted(raised)]
    return max(b - a for a, b in pairwise(times)) / 1000


@pytest.mark.parametrize(
    ("number", "bound_s"), [(signal.SIGKILL, KILLED_S), (signal.SIGTERM, STOPPED_S)]
)
async def test_the_other_takes_over_and_every_alarm_is_raised_once(
    world: DispatchWorld, number: signal.Signals, bound_s: float
) -> None:
    """The worker is killed, or asked to stop, between two of a stream of candidates. The file goes
    over with the lock, too."""
    world.put_rule()
    is_over = asyncio.Event()
    async with two_dispatchers(world) as (worker, other), watched_console(world) as console:
        sending = asyncio.create_task(send_until(world, is_over))
        await until(lambda: len(world.stored()) > 20, True)
        since_ms = wall_clock.now_ms()
        worker.signal(number)
        await until(lambda: other.works, True)
        await until(lambda: other.says("this process writes"), True)
        await asyncio.sleep(0.5)  # some more candidates are decided by the other
        is_over.set()
        await assert_each_once(world, console, await sending)
        assert longest_gap_s(world, since_ms) <= bound_s
        topic = Counter(world.on_topic())
        assert [alarm for alarm, times in topic.items() if times > 1] == []


async def test_a_worker_that_was_paused_repeats_nothing_when_it_goes_on(
    world: DispatchWorld,
) -> None:
    """SIGSTOP for longer than a session, with candidates of which the other raises the alarms;
    then SIGCONT, three times, each time the one that works."""
    world.put_rule()
    is_over = asyncio.Event()
    async with two_dispatchers(world) as (first, second), watched_console(world) as console:
        sending = asyncio.create_task(send_until(world, is_over))
        worker, other = first, second
        for _ in range(3):
            await some_are_raised(world)
            worker.signal(signal.SIGSTOP)
            await until(partial(worker_is, other), True)
            await some_are_raised(world)
            worker.signal(signal.SIGCONT)
            await until(partial(worker_is, worker), False)
            worker, other = other, worker
        is_over.set()
        await assert_each_once(world, console, await sending)
        topic = Counter(world.on_topic())
        assert [alarm for alarm, times in topic.items() if times > 1] == []


def worker_is(process: DispatcherProcess) -> bool:
    return process.works


async def some_are_raised(world: DispatchWorld) -> None:
    """A few dozen from now on."""
    wanted = world.raised() + 50
    await until(lambda: world.raised() >= wanted, True)


async def test_an_alarm_is_on_its_topic_before_it_is_in_the_file(world: DispatchWorld) -> None:
    """The file's writer is paused: the other one raises alarms, and they are stored afterwards."""
    world.put_rule()
    async with two_dispatchers(world) as (first, second):
        await until(lambda: first.says("this process writes"), True)
        first.signal(signal.SIGSTOP)
        await until(lambda: second.works, True)
        world.candidates([1, 2, 3])
        await until(world.on_topic, ids([1, 2, 3]))
        assert world.stored() == []
        first.signal(signal.SIGCONT)
        await until(world.stored, ids([1, 2, 3]))


async def test_what_is_on_the_topic_is_the_memory(world: DispatchWorld) -> None:
    """A group that has forgotten its position decides on all candidates again; the file is gone,
    too. Nothing is raised twice."""
    world.put_rule()
    world.candidates(range(50))
    async with world.running():
        await until(world.stored, ids(range(50)))
    admin = Admin(world.bus, client_id="test")
    admin.delete_group(DISPATCHER)
    admin.close()
    world.path.unlink()
    world.candidates([50])
    async with world.running():
        await until(world.stored, ids(range(51)))
    assert world.on_topic() == ids(range(51))


async def test_a_dispatcher_that_does_not_record_raises_alarms_all_the_same(
    world: DispatchWorld,
) -> None:
    """On a second machine: it writes no file and notifies nobody."""
    world.put_rule()
    world.candidates([1])
    async with world.running(DispatcherSettings(records=False)):
        await until(world.on_topic, ids([1]))
    assert not world.path.exists()
    assert world.notified() == 0
