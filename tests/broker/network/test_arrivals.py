"""Connections that wait until they are taken, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from broker.network import arrivals
from broker.network.limits import SMALL_READ_BYTES
from broker.network.listener import Listener
from broker.network.real import RealNetwork
from broker.security.security_protocol import SecurityProtocol
from tests.broker.network.test_listener import ListenerWorld, Run, framed
from tests.broker.network.test_tls import MANY, ServerSide, answer, client, until

LONG_S = 60.0
RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


class ArrivalWorld(ListenerWorld):
    """Implements `CreationBounds`: a listener at which every connection waits for `each_ms` on a clock that is set."""

    def __init__(self, tls: ServerSide | None = None) -> None:
        super().__init__(MANY)
        self.each_ms = 1000
        self.counted = 0
        self.listener = Listener(
            RealNetwork(), lambda: self.limits, self.dispatch, lambda: self.now, self.call_later,
            creation_bounds=self, tls=tls, connection_rates=self.rates,
            protocol=SecurityProtocol.PLAINTEXT if tls is None else SecurityProtocol.SSL,
        )  # fmt: skip

    def wait_ms(self, listener: str, now_ms: int) -> int:
        self.counted += 1
        return self.each_ms

    def take_back(self, listener: str, now_ms: int) -> None:
        self.counted -= 1

    def is_held(self, number: int) -> Callable[[], bool]:
        """Whether so many wait."""
        return lambda: self.waiting_connections == number

    @property
    def waiting_connections(self) -> int:
        assert self.listener._arrivals is not None
        return len(self.listener._arrivals)


Story = Callable[[ArrivalWorld], Coroutine[object, object, None]]


def play(story: Story, run: Run, tls: ServerSide | None = None, *, held: bool = False) -> None:
    async def main() -> None:
        world = ArrivalWorld(tls)
        world.port = await world.listener.start("127.0.0.1", 0, held=held)
        try:
            await asyncio.wait_for(story(world), LONG_S)
        finally:
            await world.listener.stop()

    run(main())


@RUNS
def test_connections_are_taken_in_their_order_each_at_its_time(run: Run) -> None:
    """Nothing of one that waits is served; what it has sent before is served then."""

    async def story(world: ArrivalWorld) -> None:
        clients = []
        for number in range(3):
            clients.append(await world.connect())
            clients[-1][1].write(framed(b"%d" % number))
            await until("the connection waits", world.is_held(number + 1))
        assert (world.counted, world.seen, world.listener.connection_count) == (1, 0, 0)
        for number, (reader, _) in enumerate(clients):
            world.pass_time(1.0)
            assert await answer(reader) == b"%d" % number
            assert (world.seen, world.counted) == (number + 1, min(number + 2, 3))
        assert world.waiting_connections == 0
        world.each_ms = 0
        reader, writer = await world.connect()
        writer.write(framed(b"at once"))
        assert await answer(reader) == b"at once"

    play(story, run)


@RUNS
@pytest.mark.parametrize("size", [SMALL_READ_BYTES - 4, SMALL_READ_BYTES - 3, 90_000])
def test_a_request_of_any_size_survives_the_wait(run: Run, size: int) -> None:
    """Beyond one small read its client has to keep it."""

    async def story(world: ArrivalWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"e" * size) + framed(b"next"))
        await until("the connection waits", world.is_held(1))
        (arrival,) = world.listener._arrivals._waiting  # type: ignore[union-attr]
        least = min(size + 12, SMALL_READ_BYTES)
        await until("its first bytes are here", lambda: arrival._received >= least)
        assert arrival._received <= SMALL_READ_BYTES
        world.pass_time(1.0)
        assert await answer(reader) == b"e" * size
        assert await answer(reader) == b"next"

    play(story, run)


@RUNS
def test_a_handshake_of_tls_begins_when_its_connection_is_taken(run: Run) -> None:
    async def story(world: ArrivalWorld) -> None:
        connecting = asyncio.ensure_future(world.connect(client()))
        await until("the connection waits", world.is_held(1))
        world.pass_time(1.0)
        reader, writer = await asyncio.wait_for(connecting, LONG_S)
        writer.write(framed(b"in"))
        assert await answer(reader) == b"in"

    play(story, run, ServerSide())


@RUNS
def test_who_gives_up_makes_place_and_one_too_many_is_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that go on waiting are taken all the same."""
    monkeypatch.setattr(arrivals, "MAX_ARRIVALS", 2)

    async def story(world: ArrivalWorld) -> None:
        reader, writer = await world.connect()
        await until("the first waits", world.is_held(1))
        _, second = await world.connect()
        second.write(framed(b"soon gone"))
        await until("the second waits", world.is_held(2))
        third, _ = await world.connect()
        assert await asyncio.wait_for(third.read(), LONG_S) == b""
        second.close()
        await until("the second has gone", world.is_held(1))
        kept = await world.connect()
        await until("another one waits", world.is_held(2))
        world.pass_time(1.0)
        writer.write(framed(b"in"))
        assert await answer(reader) == b"in"
        assert world.seen == 1
        kept[1].close()

    play(story, run)


@RUNS
def test_the_first_one_that_gives_up_delays_no_other(run: Run) -> None:
    async def story(world: ArrivalWorld) -> None:
        _, first = await world.connect()
        await until("the first waits", world.is_held(1))
        reader, writer = await world.connect()
        writer.write(framed(b"in"))
        await until("the second waits", world.is_held(2))
        first.close()
        await until("the first has gone", world.is_held(1))
        world.pass_time(1.0)
        assert await answer(reader) == b"in"

    play(story, run)


@RUNS
def test_the_end_of_a_listener_closes_those_that_wait(run: Run) -> None:
    async def story(world: ArrivalWorld) -> None:
        reader, _ = await world.connect()
        await until("the connection waits", world.is_held(1))
        await world.listener.stop()
        assert await asyncio.wait_for(reader.read(), LONG_S) == b""
        world.pass_time(1.0)
        assert world.listener.connection_count == 0

    play(story, run)


@RUNS
def test_one_that_was_taken_before_the_listener_opens_is_served_afterwards(run: Run) -> None:
    async def story(world: ArrivalWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"in"))
        await until("the connection waits", world.is_held(1))
        world.pass_time(1.0)
        await until("it is taken", lambda: world.listener.connection_count == 1)
        assert world.seen == 0
        world.listener.open()
        assert await answer(reader) == b"in"

    play(story, run, held=True)


@RUNS
def test_what_is_refused_because_of_its_address_counts_no_more(run: Run) -> None:
    """As in Kafka: otherwise one address could use up what all may have."""

    async def story(world: ArrivalWorld) -> None:
        world.each_ms = 0
        world.rates.follow({(("ip", "127.0.0.1"),): {"connection_creation_rate": 0.1}})
        clients = [await world.connect() for _ in range(3)]
        await until("two are refused", lambda: world.refused == 2)
        assert (world.counted, world.listener.connection_count, len(clients)) == (1, 1, 3)

    play(story, run)
