"""Connections on real sockets: limits, order, back-pressure, idleness."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest
import uvloop

from broker.network.connection import Connection
from broker.network.limits import MAX_LOGIN_S, MAX_MUTE_S, READ_BUFFER_BYTES, ConnectionLimits
from broker.network.listener import Listener
from broker.network.listener_tls import TlsServer
from broker.network.port import ListenError, Network, SocketBuffers
from broker.network.real import RealNetwork, set_buffers
from broker.network.responses import ResponseSlot
from broker.quotas.connection_rates import ConnectionRates
from broker.quotas.quota_rate import QuotaWindows
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import Session
from bus.errors import CloseConnection
from bus.metrics.page import respond

LIMITS = ConnectionLimits(100_000, 60_000, 3, 2, 1_000_000)
BIG = 4_000_000
KERNEL_BYTES = 10_000_000
"""More than both kernels' buffers of one connection take on any machine."""

Story = Callable[["ListenerWorld"], Coroutine[object, object, None]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Run = Callable[[Coroutine[object, object, None]], None]
RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


class ListenerWorld:
    """A listener whose dispatcher echoes; `w...` waits until released, `x...` is refused, `t...`
    mutes its connection, `l` is a login."""

    def __init__(
        self, limits: ConnectionLimits, protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
        tls: TlsServer | None = None, network: Network | None = None,
    ) -> None:
        self.limits = limits
        self.now = 0.0
        self.waiting: list[tuple[ResponseSlot, bytes]] = []
        self.seen = 0
        self.cost_s = 0.0
        self.refused = 0
        self.rates = ConnectionRates(QuotaWindows(11, 1000), self.count_refused)
        self.listener = Listener(
            network or RealNetwork(), lambda: self.limits, self.dispatch, lambda: self.now, self.call_later,
            protocol=protocol, connection_rates=self.rates, tls=tls,
        )  # fmt: skip
        self.port = 0
        self.mute_ms = 0
        self.timers: list[Callable[[], None]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.Handle:
        """What is due at once runs at once; `pass_time` runs the rest."""
        loop = asyncio.get_running_loop()
        if not delay_s:
            return loop.call_soon(callback)
        self.timers.append(callback)
        return loop.call_later(3600, callback)

    def count_refused(self) -> None:
        self.refused += 1

    def pass_time(self, seconds: float) -> None:
        """Every timer runs, also those that are not due: they look at the clock."""
        self.now += seconds
        timers, self.timers = self.timers, []
        for callback in timers:
            callback()

    def dispatch(self, frame: memoryview, connection: Connection, slot: ResponseSlot) -> None:
        body = bytes(frame)
        self.seen += 1
        self.now += self.cost_s
        if body == b"l":
            connection.on_authenticated()
        if body.startswith(b"x"):
            raise CloseConnection("refused")
        if body.startswith(b"!"):
            raise ZeroDivisionError
        if body.startswith(b"h"):
            connection.pause_requests()
        if body.startswith(b"t"):
            connection.mute(self.mute_ms)
        if body.startswith(b"b"):
            slot.set([framed(bytes(BIG))])
        elif body.startswith((b"w", b"h")):
            self.waiting.append((slot, body))
        else:
            slot.set([framed(body)])

    async def connect(
        self, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


async def read(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 5), "big")
    return await reader.readexactly(length)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("what was waited for did not happen")


def play(
    story: Story, limits: ConnectionLimits = LIMITS, *, held: bool = False, run: Run = asyncio.run,
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, tls: TlsServer | None = None,
) -> None:  # fmt: skip
    async def main() -> None:
        world = ListenerWorld(limits, protocol, tls)
        world.port = await world.listener.start("127.0.0.1", 0, held=held)
        try:
            await story(world)
        finally:
            await world.listener.stop()

    run(main())


def test_answers_come_in_order_though_the_first_one_waits() -> None:
    """And others' connections are not held back."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"wait") + framed(b"second"))
        other_reader, other_writer = await world.connect()
        other_writer.write(framed(b"other"))
        assert await read(other_reader) == b"other"
        await until(lambda: bool(world.waiting))
        slot, body = world.waiting.pop()
        slot.set([framed(body)])
        assert [await read(reader), await read(reader)] == [b"wait", b"second"]

    play(story)


@pytest.mark.parametrize(
    "bad",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n", framed(b"x"),
     b"\x16\x03\x01\x02\x00"],
)
def test_garbage_closes_its_connection_and_harms_no_other(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line."""

    async def story(world: ListenerWorld) -> None:
        good_reader, good_writer = await world.connect()
        reader, writer = await world.connect()
        writer.write(bad)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        good_writer.write(framed(b"fine"))
        assert await read(good_reader) == b"fine"

    caplog.set_level("INFO", "broker.network")
    play(story)
    assert len([r for r in caplog.records if "closing connection" in r.message]) == 1


def test_a_bug_in_a_handler_closes_only_the_connection_that_met_it() -> None:
    """The listener continues."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"!"))
        assert await asyncio.wait_for(reader.read(), 5) == b""
        reader, writer = await world.connect()
        writer.write(framed(b"fine"))
        assert await read(reader) == b"fine"

    play(story)


def test_half_a_frame_and_good_bye_leaves_nothing_behind() -> None:
    """Its memory is given back."""

    async def story(world: ListenerWorld) -> None:
        _, writer = await world.connect()
        writer.write(framed(bytes(50_000))[:1000])
        await until(lambda: world.listener.memory_pool.used_bytes > 0)
        writer.close()
        await until(lambda: world.listener.memory_pool.used_bytes == 0)
        assert world.listener.connection_count == 0

    play(story)


def test_a_stalled_half_frame_gives_way_when_others_need_the_memory() -> None:
    """And only then: a slow client alone is left in peace."""

    async def story(world: ListenerWorld) -> None:
        stalled = await world.connect()
        stalled[1].write(framed(bytes(90_000))[:1000])
        await until(lambda: world.listener.memory_pool.used_bytes > 0)
        world.now = 10.0
        assert world.listener.close_stalled() == 0
        reader, writer = await world.connect()
        big = framed(bytes(80_000))
        writer.write(big[:1000])
        await until(lambda: world.listener.memory_pool.is_short)
        assert world.listener.close_stalled() == 1
        writer.write(big[1000:])
        assert await read(reader) == bytes(80_000)

    play(story, ConnectionLimits(100_000, 60_000, 3, 2, 100_000))


def test_connections_beyond_the_limit_of_an_address_are_closed() -> None:
    """max.connections.per.ip; a place that comes free can be taken."""

    async def story(world: ListenerWorld) -> None:
        held = [await world.connect() for _ in range(2)]
        await until(lambda: world.listener.connection_count == 2)
        reader, _ = await world.connect()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        held[0][1].close()
        await until(lambda: world.listener.connection_count == 1)
        reader, writer = await world.connect()
        writer.write(framed(b"in"))
        assert await read(reader) == b"in"

    play(story)


def test_an_address_may_have_a_bound_of_its_own_and_get_another_while_the_broker_runs() -> None:
    """max.connections.per.ip.overrides; max.connections counts before it."""

    async def story(world: ListenerWorld) -> None:
        world.limits = replace(LIMITS, max_connections_by_ip={"127.0.0.1": 1})
        await world.connect()
        await until(lambda: world.listener.connection_count == 1)
        reader, _ = await world.connect()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        world.limits = replace(LIMITS, max_connections_by_ip={"127.0.0.1": 3})
        reader, writer = await world.connect()
        writer.write(framed(b"in"))
        assert await read(reader) == b"in"

    play(story)


def test_an_address_that_connects_too_often_is_kept_waiting_and_then_closed() -> None:
    """Nothing that it sends is served, it counts nowhere, and the end of the listener ends it."""

    async def story(world: ListenerWorld) -> None:
        world.limits = replace(LIMITS, max_connections=100, max_connections_per_ip=100)
        world.rates.follow({(("ip", "127.0.0.1"),): {"connection_creation_rate": 0.2}})
        held = [await world.connect() for _ in range(2)]
        for reader, writer in held:
            writer.write(framed(b"in"))
            assert await read(reader) == b"in"
        late, writer = await world.connect()
        writer.write(framed(b"too often"))
        await until(lambda: world.refused == 1)
        assert world.listener.connection_count == 2
        (kept,) = world.listener._refused
        await until(lambda: kept._decoder.has_frame)
        assert (world.seen, kept.closed) == (2, False)
        world.pass_time(1.0)
        assert await asyncio.wait_for(late.read(), 60) == b""
        assert world.seen == 2
        await until(lambda: not world.listener._refused)
        last, _ = await world.connect()
        await until(lambda: bool(world.listener._refused))
        await world.listener.stop()
        assert await asyncio.wait_for(last.read(), 60) == b""

    play(story)


def test_idle_connections_are_closed_but_not_those_whose_request_waits() -> None:
    """A long fetch is not idleness."""

    async def story(world: ListenerWorld) -> None:
        idle = await world.connect()
        busy = await world.connect()
        busy[1].write(framed(b"wait"))
        await until(lambda: bool(world.waiting))
        await until(lambda: world.listener.connection_count == 2)
        world.now = 61.0
        assert world.listener.close_idle() == 1
        assert await asyncio.wait_for(idle[0].read(), 5) == b""
        assert world.listener.connection_count == 1

    play(story)


def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Its answers would fill the memory; when it reads again, nothing is lost."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        frames = 300
        sending = asyncio.create_task(_send(writer, frames))
        last = -1
        while last != world.seen:
            last = world.seen
            await asyncio.sleep(0.1)
        assert world.seen < frames
        for _ in range(frames):
            assert len(await read(reader)) == 90_000
        await sending
        assert world.seen == frames

    play(story)


async def _send(writer: asyncio.StreamWriter, frames: int) -> None:
    for _ in range(frames):
        writer.write(framed(bytes(90_000)))
        await writer.drain()


def test_more_requests_than_may_be_in_flight_wait_their_turn() -> None:
    """All are answered in the end."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.write(b"".join(framed(b"w%d" % n) for n in range(200)))
        await until(lambda: len(world.waiting) == 64)
        answered = 0
        while answered < 200:
            await until(lambda: bool(world.waiting))
            slot, body = world.waiting.pop(0)
            slot.set([framed(body)])
            assert await read(reader) == b"w%d" % answered
            answered += 1

    play(story)


@RUNS
def test_answers_that_are_not_read_keep_further_requests_from_being_taken(run: Run) -> None:
    """Answers behind an unfinished one count, too. Regression: all sixty-four of one connection
    were built before the unsent bytes were checked: gigabytes."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(framed(b"wait") + framed(b"big") * 60)
        await until(lambda: world.seen > 1)
        _, other = await world.connect()
        other.write(framed(b"x"))
        await until(lambda: world.listener.connection_count == 1)
        assert world.seen == 3
        assert world.listener.memory.used_bytes < 2 * BIG
        slot, body = world.waiting.pop()
        slot.set([framed(body)])
        await until(lambda: world.listener.memory.used_bytes > 0)
        assert world.seen * BIG < KERNEL_BYTES + 3 * BIG
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await read(reader) == b"wait"
        for _ in range(60):
            assert len(await read(reader)) == BIG
        await until(lambda: world.listener.memory.used_bytes == 0)

    play(story, run=run)


@RUNS
def test_those_who_read_nothing_give_way_when_their_memory_is_needed(run: Run) -> None:
    """And only then; one who reads a little in time stays."""

    async def story(world: ListenerWorld) -> None:
        listener = world.listener
        (reader, writer), _ = await world.connect(), await world.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(framed(b"big") * 8)
        await until(lambda: listener.memory.used_bytes > 0)
        for world.now in (0.0, 10.0, 20.0):
            assert listener.close_unread() == 0
        listener.memory.limit_bytes = 1
        assert listener.close_unread() == 0
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        await reader.readexactly(BIG)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        world.now = 24.0
        while listener.close_unread() == 0:
            world.now += 1.0
            await asyncio.sleep(0.01)
        assert world.now >= 29.0
        await until(lambda: listener.connection_count == 1)
        assert listener.memory.used_bytes == 0

    play(story, run=run)


def test_nothing_is_taken_behind_a_request_that_holds_its_connection() -> None:
    """Its response may be large and may come at any time; an end of the client is heard."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"hold") + framed(b"second"))
        await until(lambda: bool(world.waiting))
        other_reader, other_writer = await world.connect()
        other_writer.write(framed(b"other"))
        assert await read(other_reader) == b"other"
        assert world.seen == 2
        slot, body = world.waiting.pop()
        slot.set([framed(body)])
        assert [await read(reader), await read(reader)] == [b"hold", b"second"]
        assert world.listener.memory.used_bytes == 0
        writer.write(framed(b"hold"))
        await until(lambda: bool(world.waiting))
        writer.close()
        await until(lambda: world.listener.connection_count == 1)
        assert world.listener.memory.used_bytes == 0

    play(story)


@RUNS
def test_a_muted_connection_is_answered_and_accepts_nothing_until_its_time_is_over(run: Run) -> None:
    """What it sends meanwhile waits, in the broker up to one read and else in its socket; others
    are served."""

    async def story(world: ListenerWorld) -> None:
        world.mute_ms = 2_000
        reader, writer = await world.connect()
        other_reader, other_writer = await world.connect()
        writer.write(framed(b"throttled") + framed(b"second"))
        assert await read(reader) == b"throttled"
        writer.write(framed(b"third"))
        for number in range(20):
            other_writer.write(framed(b"other"))
            assert await read(other_reader) == b"other"
            assert world.seen == 2 + number
        world.pass_time(1.5)
        other_writer.write(framed(b"other"))
        assert await read(other_reader) == b"other"
        assert world.seen == 22, "half a second is left"
        world.pass_time(0.6)
        assert [await read(reader), await read(reader)] == [b"second", b"third"]

    play(story, run=run)


def test_of_two_throttles_the_longer_one_counts() -> None:
    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect()
        writer.write(framed(b"plain"))
        assert await read(reader) == b"plain"
        [connection] = world.listener._connections
        connection.mute(5_000)
        connection.mute(1_000)
        writer.write(framed(b"second"))
        for seconds, is_muted in ((2.0, True), (2.9, True), (0.2, False)):
            world.pass_time(seconds)
            assert connection.is_muted is is_muted
        assert await read(reader) == b"second"

    play(story)


def test_no_connection_is_muted_for_longer_than_the_listener_allows() -> None:
    """Whatever a quota comes to: the client would give up and only connect again. A muted
    connection is not idle, and begins to be so when it is over."""

    async def story(world: ListenerWorld) -> None:
        world.limits = replace(LIMITS, max_idle_ms=1_000)
        world.mute_ms = 1 << 60
        reader, writer = await world.connect()
        writer.write(framed(b"throttled"))
        assert await read(reader) == b"throttled"
        world.pass_time(MAX_MUTE_S - 0.1)
        assert world.listener.close_idle() == 0
        world.pass_time(0.2)
        assert world.listener.close_idle() == 0
        writer.write(framed(b"second"))
        assert await read(reader) == b"second"
        world.pass_time(1.1)
        assert world.listener.close_idle() == 1

    play(story)


def test_the_end_of_a_muted_client_is_heard_and_leaves_no_timer() -> None:
    async def story(world: ListenerWorld) -> None:
        world.mute_ms = 2_000
        reader, writer = await world.connect()
        writer.write(framed(b"throttled"))
        assert await read(reader) == b"throttled"
        [connection] = world.listener._connections
        timer = connection._unmute_timer
        writer.close()
        await until(lambda: world.listener.connection_count == 0)
        assert isinstance(timer, asyncio.TimerHandle)
        assert timer.cancelled()
        connection.mute(1_000)
        assert not connection.is_muted

    play(story)


def test_a_session_is_made_when_a_connection_is_accepted() -> None:
    """With the listener's name and protocol, before the first byte."""

    async def story(world: ListenerWorld) -> None:
        await world.connect()
        await until(lambda: world.listener.connection_count == 1)
        [connection] = world.listener._connections
        assert connection.session == Session("127.0.0.1", "PLAINTEXT", SecurityProtocol.PLAINTEXT)

    play(story)


def test_a_client_has_so_long_to_log_in_and_may_send_little_before() -> None:
    """One that has is as any other; without SASL nobody is late."""

    async def story(world: ListenerWorld) -> None:
        clients = [await world.connect() for _ in range(2)]
        await until(lambda: world.listener.connection_count == 2)
        known, late = world.listener._connections
        known.on_authenticated()
        by_port = {writer.get_extra_info("sockname")[1]: (reader, writer)
                   for reader, writer in clients}  # fmt: skip
        known_reader, known_writer = by_port[peer_port(known)]
        known_writer.write(framed(bytes(100)))
        assert await read(known_reader) == bytes(100)
        world.now = MAX_LOGIN_S + 1
        assert world.listener.close_unknown() == 1
        assert await asyncio.wait_for(by_port[peer_port(late)][0].read(), 60) == b""
        reader, writer = await world.connect()
        writer.write(framed(bytes(100)))
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await until(lambda: world.listener.connection_count == 1)

    play(
        story, replace(LIMITS, max_unknown_request_bytes=50),
        protocol=SecurityProtocol.SASL_PLAINTEXT,
    )  # fmt: skip


def peer_port(connection: Connection) -> int:
    """The client's."""
    transport = connection._transport
    assert transport is not None
    return int(transport.get_extra_info("peername")[1])


@RUNS
def test_a_connection_that_asks_without_end_gives_others_their_turn(run: Run) -> None:
    """A whole read of it was served in one turn, ten seconds long."""

    async def story(world: ListenerWorld) -> None:
        world.cost_s = 0.0002
        flood = framed(b"f") * 20_000
        reader, writer = await world.connect()
        other_reader, other_writer = await world.connect()
        await until(lambda: world.listener.connection_count == 2)
        writer.write(flood)
        await until(lambda: world.seen > 0)
        other_writer.write(framed(b"other"))
        assert await read(other_reader) == b"other"
        assert world.seen < 10_000
        assert await reader.readexactly(len(flood)) == flood
        await until(lambda: world.listener.memory_pool.used_bytes == 0)

    play(story, run=run)


def test_requests_that_wait_their_turn_count_as_received_and_are_served_without_memory() -> None:
    """They are worked off in any case; only a half frame waits for memory."""

    async def story(world: ListenerWorld) -> None:
        world.cost_s = 0.01
        first, second = await world.connect(), await world.connect()
        most = 0
        for _, writer in (first, second):
            writer.write(framed(b"f" * 95) * 2_000)
        while world.seen < 4_000:
            most = max(most, world.listener.memory_pool.used_bytes)
            await asyncio.sleep(0)
        assert (
            0 < most <= READ_BUFFER_BYTES
        )  # of the first; the second one is read in little pieces
        for reader, _ in (first, second):
            assert len(await reader.readexactly(99 * 2_000)) == 99 * 2_000
        assert world.listener.memory_pool.used_bytes == 0

    play(story, ConnectionLimits(100_000, 60_000, 3, 2, 100_000))


def test_a_taken_port_is_an_error_that_names_the_remedy() -> None:
    """Not a stack trace."""

    async def story(world: ListenerWorld) -> None:
        with pytest.raises(ListenError, match=r"stop the process .* or choose another"):
            await RealNetwork().listen("127.0.0.1", world.port, asyncio.Protocol)

    play(story)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_accepted_connections_have_the_buffers_that_were_asked_for(loop: LoopFactory) -> None:
    """Linux doubles the numbers. Without any the system's own, which it tunes."""

    async def sizes(buffers: SocketBuffers | None) -> tuple[int, int]:
        accepted: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(transport.get_extra_info("socket"))

        server = await RealNetwork().listen("127.0.0.1", 0, Accepted, buffers)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        one = await accepted
        found = [one.getsockopt(socket.SOL_SOCKET, option) for option in
                 (socket.SO_SNDBUF, socket.SO_RCVBUF)]  # fmt: skip
        writer.close()
        await server.close()
        return found[0], found[1]

    async def story() -> None:
        untouched = await sizes(None)
        assert await sizes(SocketBuffers()) == untouched
        assert await sizes(SocketBuffers(30_000, 50_000)) == (60_000, 100_000)
        assert await sizes(SocketBuffers(receive_bytes=50_000)) == (untouched[0], 100_000)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


def test_buffers_that_the_system_does_not_give_are_logged(
    caplog: pytest.LogCaptureFixture
) -> None:
    """With the limit that an operator has to raise."""
    with socket.socket() as one:
        set_buffers(one, SocketBuffers(1 << 30, 1 << 30))
    assert "net.core.wmem_max" in caplog.text
    assert "net.core.rmem_max" in caplog.text


def test_the_metrics_port_answers_get_and_nothing_else() -> None:
    """It is not a web server."""
    assert b"200 OK" in respond(b"GET /metrics HTTP/1.1\r\n\r\n", lambda: "kafka_x 1\n")
    assert respond(b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", lambda: "kafka_x 1\n").endswith(b"x 1\n")
    assert b"404" in respond(b"GET / HTTP/1.1\r\n\r\n", str)
    assert b"405" in respond(b"POST /metrics HTTP/1.1\r\n\r\n", str)


@RUNS
def test_a_held_listener_answers_nobody_before_it_opens(run: Run) -> None:
    """Early requests are answered then, in sequence. A broker on uvloop answered at once, of
    a cluster without brokers, and librdkafka then gave every broker up for good."""

    async def story(world: ListenerWorld) -> None:
        early, early_writer = await world.connect()
        early_writer.write(framed(b"first") + framed(b"second"))
        await until(lambda: world.listener.connection_count == 1)
        early_writer.write(framed(b"third" * 20_000))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(early.read(1), 0.2)
        assert world.seen == 0
        world.listener.open()
        assert [await read(early) for _ in range(2)] == [b"first", b"second"]
        assert await read(early) == b"third" * 20_000

    play(story, held=True, run=run)


@RUNS
def test_a_client_is_served_before_it_has_logged_in_while_another_never_stops(run: Run) -> None:
    """The one that is known fills every round of the loop. Then the other one is known as well."""

    async def story(world: ListenerWorld) -> None:
        flood = framed(b"f") * 20_000
        known, known_writer = await world.connect()
        known_writer.write(framed(b"l"))
        assert await read(known) == b"l"
        world.cost_s = 0.01
        known_writer.write(flood)
        await until(lambda: world.seen > 1)
        reader, writer = await world.connect()
        for word in (b"first", b"second", b"l", b"third"):
            writer.write(framed(word))
            assert await read(reader) == word
        assert world.seen < 15_000
        world.cost_s = 0.0
        assert await known.readexactly(len(flood)) == flood

    play(story, run=run, protocol=SecurityProtocol.SASL_PLAINTEXT)


def test_who_logs_in_waits_for_those_that_are_known_and_no_longer_after_that() -> None:
    """Its class is another one then; a later login of a broker leaves it a broker."""

    async def story(world: ListenerWorld) -> None:
        turns = world.listener.turns
        reader, writer = await world.connect()
        writer.write(framed(b"a"))
        assert await read(reader) == b"a"
        (connection,) = world.listener._connections
        assert connection._class is turns.unknown_clients
        writer.write(framed(b"l"))
        assert await read(reader) == b"l"
        assert connection._class is turns.clients
        connection.mark_as_broker(1, 1000)
        writer.write(framed(b"l"))
        assert await read(reader) == b"l"
        assert connection._class is turns.brokers

    play(story, protocol=SecurityProtocol.SASL_PLAINTEXT)
