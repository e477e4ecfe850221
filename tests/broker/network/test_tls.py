"""A listener with TLS on real sockets: what is said, who says it, and what breaks off."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from dataclasses import replace
from functools import cache

import pytest
import uvloop

from broker.clock.real import RealClock
from broker.controller.probe import is_reachable
from broker.metadata.image import Endpoint
from broker.network.client_log import ClientLog
from broker.network.limits import LINGER_S, MAX_LOGIN_S, MAX_UNKNOWN_CLIENTS
from broker.network.port import TlsKeys
from broker.network.real import RealNetwork
from broker.network.real_tls import RealTls
from broker.network.tls_connector import TlsConnector
from broker.security.key_stores import pem_key_store, pem_trust_store
from broker.security.principal import ANONYMOUS, Principal
from broker.security.security_protocol import SecurityProtocol
from bus.errors import CloseConnection
from tests.broker.network.test_listener import (
    BIG,
    KERNEL_BYTES,
    LIMITS,
    ListenerWorld,
    Story,
    framed,
    play,
)
from tests.certificates import Authority, Identity, KeyKind

VERSIONS = ("TLSv1.2", "TLSv1.3")
MANY = replace(LIMITS, max_connections=5000, max_connections_per_ip=5000)
DEADLINE_S = 60.0


@cache
def authority() -> Authority:
    return Authority()


@cache
def identity(name: str, kind: KeyKind = KeyKind.P_256) -> Identity:
    return authority().signed(name, kind)


def keys(own: Identity | None, versions: tuple[str, ...] = VERSIONS, auth: str = "none") -> TlsKeys:
    store = pem_key_store(own.key_pem(), own.chain_pem, None) if own else None
    return TlsKeys(store, pem_trust_store(authority().pem), versions, client_auth=auth)


class ServerSide:
    """Implements `TlsServer`: whoever shows a certificate is `User:known`, unless refused."""

    def __init__(
        self, kind: KeyKind = KeyKind.P_256, auth: str = "none", versions: tuple[str, ...] = VERSIONS,
        suites: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.suites = suites
        self.context = RealTls().server_context(keys(identity("server", kind), versions, auth))
        self.refused = False

    def principal_of(self, certificate: bytes | None) -> Principal:
        if self.refused:
            raise CloseConnection("the rules have nobody of this name")
        return ANONYMOUS if certificate is None else Principal("User", "known")


def client(own: Identity | None = None, versions: tuple[str, ...] = VERSIONS) -> ssl.SSLContext:
    return RealTls().client_context(keys(own, versions))


def over_tls(story: Story, server: ServerSide | None = None, limits=LIMITS, **more) -> None:
    play(story, limits, protocol=SecurityProtocol.SSL, tls=server or ServerSide(), run=uvloop.run,
         **more)  # fmt: skip


async def until(what: str, condition) -> None:
    ends = asyncio.get_running_loop().time() + DEADLINE_S
    while not condition():
        assert asyncio.get_running_loop().time() < ends, f"not in {DEADLINE_S:.0f} s: {what}"
        await asyncio.sleep(0.01)


async def answer(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), DEADLINE_S), "big")
    return await asyncio.wait_for(reader.readexactly(length), DEADLINE_S)


async def is_served(world: ListenerWorld) -> None:
    reader, writer = await world.connect(client())
    writer.write(framed(b"fine"))
    assert await answer(reader) == b"fine"
    writer.close()


@pytest.mark.parametrize("kind", KeyKind)
@pytest.mark.parametrize("version", VERSIONS)
def test_requests_of_all_sizes_are_answered_in_both_versions_with_both_kinds_of_keys(
    kind: KeyKind, version: str, dice: random.Random
) -> None:
    """In pieces as the client sends them, and with answers of several megabytes."""
    bodies = [b"e" + dice.randbytes(dice.choice([1, 100, 16_000, 40_000, 99_000])) for _ in range(30)]
    sent = b"".join(map(framed, bodies))

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect(client(versions=(version,)))
        assert writer.get_extra_info("ssl_object").version() == version

        async def send() -> None:
            at = 0
            while at < len(sent):
                size = dice.choice([1, 5, 1000, 20_000, 300_000])
                writer.write(sent[at : at + size])
                await writer.drain()
                at += size

        sending = asyncio.ensure_future(send())
        assert [await answer(reader) for _ in bodies] == bodies
        await sending
        writer.write(framed(b"big"))
        assert len(await answer(reader)) == BIG

    over_tls(story, ServerSide(kind, versions=(version,)))


def test_a_client_that_does_not_read_is_held_at_the_same_bound_as_without_tls() -> None:
    """What waits is counted, as plaintext, and leaves when the client reads."""

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect(client())
        writer.write(framed(b"b") * 12)
        await until("its answers are counted", lambda: world.listener.memory.used_bytes > BIG // 2)
        assert world.listener.memory.used_bytes <= BIG + KERNEL_BYTES
        assert world.seen < 12
        for _ in range(12):
            assert len(await answer(reader)) == BIG
        await until("nothing is held", lambda: world.listener.memory.used_bytes == 0)

    over_tls(story)


def test_an_address_that_connects_too_often_gets_no_handshake() -> None:
    """Handshakes are what it would cost; it is closed at once."""

    async def story(world: ListenerWorld) -> None:
        world.rates.follow({(("ip", "127.0.0.1"),): {"connection_creation_rate": 0.1}})
        await is_served(world)
        with pytest.raises(OSError):
            await asyncio.wait_for(is_served(world), 60)
        assert (world.refused, len(world.listener._refused)) == (1, 0)

    over_tls(story)


def test_a_throttled_client_waits_and_loses_nothing() -> None:
    """What was decrypted, and what was not, waits for the end of its pause."""

    async def story(world: ListenerWorld) -> None:
        world.mute_ms = 1000
        reader, writer = await world.connect(client())
        bodies = [b"e%d" % number + bytes(40_000) for number in range(40)]
        writer.write(framed(b"throttled") + b"".join(map(framed, bodies)))
        assert await answer(reader) == b"throttled"
        assert world.seen == 1
        world.pass_time(2)
        assert [await answer(reader) for _ in bodies] == bodies

    over_tls(story)


@pytest.mark.parametrize("shown", [None, "camera"])
@pytest.mark.parametrize("auth", ["none", "requested", "required"])
def test_a_client_is_who_its_certificate_says(auth: str, shown: str | None) -> None:
    """Where it is asked for one."""
    seen: list[Principal] = []

    async def story(world: ListenerWorld) -> None:
        dispatch = world.listener.dispatch

        def noted(frame, connection, slot) -> None:
            seen.append(connection.session.principal)
            dispatch(frame, connection, slot)

        world.listener.dispatch = noted
        own = identity(shown) if shown else None
        try:
            reader, writer = await world.connect(client(own))
            writer.write(framed(b"echo"))
            await answer(reader)
        except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
            seen.append(Principal("", "refused"))

    over_tls(story, ServerSide(auth=auth))
    is_asked = auth != "none"
    if shown and is_asked:
        assert seen == [Principal("User", "known")]
    else:
        assert seen == [Principal("", "refused") if auth == "required" else ANONYMOUS]


def test_whom_the_rules_do_not_name_is_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    server = ServerSide(auth="required")
    server.refused = True

    async def story(world: ListenerWorld) -> None:
        reader, writer = await world.connect(client(identity("camera")))
        writer.write(framed(b"echo"))
        assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        assert world.seen == 0

    caplog.set_level("INFO", "broker.network")
    over_tls(story, server)
    assert [r.message for r in caplog.records if "closing" in r.message] == [
        "closing connection from 127.0.0.1: the rules have nobody of this name"
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_suite_of_tls_1_3_that_is_not_named_is_never_spoken(
    version: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client, which has all three, is told by an alert; one of TLS 1.2 is let in."""

    async def story(world: ListenerWorld) -> None:
        for _ in range(2):
            if version == "TLSv1.3":
                with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
                    await asyncio.wait_for(world.connect(client(versions=(version,))), DEADLINE_S)
            else:
                reader, writer = await world.connect(client(versions=(version,)))
                writer.write(framed(b"fine"))
                assert await answer(reader) == b"fine"
                writer.close()
        await until("all are closed", lambda: world.listener.connection_count == 0)

    caplog.set_level("INFO", "broker.network")
    over_tls(with_time(story), ServerSide(suites=frozenset({"TLS_AES_128_GCM_SHA256"})))
    told = [r.message for r in caplog.records if "which is not served here" in r.message]
    assert bool(told) is (version == "TLSv1.3")


@pytest.mark.parametrize(
    ("listens", "speaks", "line"),
    [(True, False, "it does not speak TLS"), (False, True, "its client speaks TLS, which this")],
)
def test_who_speaks_tls_at_the_wrong_port_is_closed_with_one_line(
    listens: bool, speaks: bool, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: ListenerWorld) -> None:
        if speaks:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.wait_for(world.connect(client()), DEADLINE_S)
        else:
            reader, writer = await world.connect()
            writer.write(framed(b"\0\x12\0\4" + bytes(20)))
            await asyncio.wait_for(reader.read(), DEADLINE_S)
        await until("it is closed", lambda: world.listener.connection_count == 0)

    caplog.set_level("INFO", "broker.network")
    if listens:
        over_tls(with_time(story))
    else:
        play(story, run=uvloop.run)
    told = [r.message for r in caplog.records if "closing" in r.message]
    assert len(told) == 1
    assert line in told[0]


def with_time(story: Story) -> Story:
    """Timers that are due in `LINGER_S` run in the end."""

    async def longer(world: ListenerWorld) -> None:
        ticking = asyncio.ensure_future(_tick(world))
        try:
            await story(world)
        finally:
            ticking.cancel()

    return longer


async def _tick(world: ListenerWorld) -> None:
    while True:
        await asyncio.sleep(0.01)
        world.pass_time(LINGER_S)


def test_half_handshakes_by_the_thousand_stop_nobody() -> None:
    """Beyond the bound the oldest goes; known clients, and those that come now, are served."""

    async def story(world: ListenerWorld) -> None:
        known_reader, known_writer = await world.connect(client())
        hello = client_hello()
        half: list[asyncio.StreamWriter] = []
        for number in range(MAX_UNKNOWN_CLIENTS + 200):
            _, writer = await world.connect()
            writer.write(hello[: len(hello) // 2] if number % 2 else hello)
            half.append(writer)
            if number % 300 == 0:
                await is_served(world)
                known_writer.write(framed(b"known"))
                assert await answer(known_reader) == b"known"
        await until("no more than the bound are open",
                    lambda: world.listener.connection_count <= MAX_UNKNOWN_CLIENTS + 2)  # fmt: skip
        await is_served(world)
        known_writer.write(framed(b"known"))
        assert await answer(known_reader) == b"known"
        world.now = MAX_LOGIN_S + 1
        assert world.listener.close_unknown() >= MAX_UNKNOWN_CLIENTS - 1
        await until("they are gone", lambda: world.listener.connection_count <= 2)
        known_writer.write(framed(b"known"))
        assert await answer(known_reader) == b"known"
        for writer in half:
            writer.close()

    over_tls(story, limits=MANY)


def client_hello() -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


def test_damaged_bytes_end_their_connection_and_no_other(dice: random.Random) -> None:
    """In a hello, instead of one, and in records after a good handshake."""

    async def story(world: ListenerWorld) -> None:
        known_reader, known_writer = await world.connect(client())
        hello = client_hello()
        for _ in range(60):
            damaged = bytearray(hello)
            for _ in range(dice.randrange(1, 6)):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            data = dice.choice([bytes(damaged), dice.randbytes(dice.randrange(1, 3000)),
                                bytes(damaged) + dice.randbytes(500)])  # fmt: skip
            reader, writer = await world.connect()
            writer.write(data)
            writer.write_eof()
            await _ended(reader)
            writer.close()
        for _ in range(20):
            await _spoil_records(world, dice)
        known_writer.write(framed(b"known"))
        assert await answer(known_reader) == b"known"
        known_writer.close()
        await until("all are closed", lambda: world.listener.connection_count == 0)
        assert world.listener.memory.used_bytes == world.listener.memory_pool.used_bytes == 0

    over_tls(with_time(story))


async def _ended(reader: asyncio.StreamReader) -> None:
    try:
        await asyncio.wait_for(reader.read(), DEADLINE_S)
    except ConnectionError:
        return


async def _spoil_records(world: ListenerWorld, dice: random.Random) -> None:
    """A client whose records are changed on their way, after a request that was answered."""
    reader, writer = await world.connect()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await asyncio.wait_for(reader.read(65536), DEADLINE_S))
    tls.write(framed(b"good") * 3)
    records = bytearray(outgoing.read())
    records[dice.randrange(len(records))] ^= 1 << dice.randrange(8)
    writer.write(records + dice.randbytes(dice.randrange(100)))
    writer.write_eof()
    await _ended(reader)
    writer.close()


def test_our_own_connections_check_whom_they_speak_to(caplog: pytest.LogCaptureFixture) -> None:
    """An unknown authority and another's name end them, with a line; the right one is spoken to."""
    stranger = Authority("stranger")
    asked: list[bytes] = []

    class Asking(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(100)
            self.lost = asyncio.get_running_loop().create_future()

        def connection_made(self, transport) -> None:
            self.transport = transport
            transport.write(framed(b"asked"))

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            asked.append(bytes(self.buffer[4:nbytes]))
            self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self.lost.set_result(exc)

    async def ask(world: ListenerWorld, context: ssl.SSLContext, host: str) -> None:
        loop = asyncio.get_running_loop()
        connector = TlsConnector(RealNetwork(), lambda: context, loop.call_later, ClientLog(loop.time))
        _, outer = await connector.connect(host, world.port, Asking)
        await asyncio.wait_for(outer.protocol.lost, DEADLINE_S)

    async def story(world: ListenerWorld) -> None:
        await ask(world, client(), "127.0.0.1")
        assert asked == [b"asked"]
        other = TlsKeys(None, pem_trust_store(stranger.pem), VERSIONS)
        await ask(world, RealTls().client_context(other), "127.0.0.1")
        await ask(world, client(), "localhost")
        assert asked == [b"asked"]
        await ask(world, RealTls().client_context(replace(keys(None), checks_name=False)), "localhost")
        assert asked == [b"asked"] * 2

    caplog.set_level("INFO", "broker.network")
    over_tls(story)
    told = [r.message for r in caplog.records if r.message.startswith("TLS with")]
    assert told, "a line at once; later ones may be left out"
    assert "its certificate is not accepted" in told[0]


def test_the_controllers_probe_knows_a_listener_that_answers_from_one_that_is_silent() -> None:
    """Without a certificate, where one is asked for; a stopped process accepts, and says nothing."""

    async def story(world: ListenerWorld) -> None:
        async def answers(port: int) -> bool:
            endpoint = Endpoint("SSL", "127.0.0.1", port, SecurityProtocol.SSL.value)
            for _ in range(20):  # 300 ms are little on a machine that is busy otherwise
                if await asyncio.wait_for(
                    is_reachable(RealNetwork(), RealClock(), endpoint), DEADLINE_S
                ):
                    return True
            return False

        assert await answers(world.port)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint = Endpoint("SSL", "127.0.0.1", silent.getsockname()[1], SecurityProtocol.SSL.value)
            assert not await is_reachable(RealNetwork(), RealClock(), endpoint)
        assert not await is_reachable(RealNetwork(), RealClock(), endpoint)

    over_tls(with_time(story), ServerSide(auth="required"))
