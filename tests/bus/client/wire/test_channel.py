"""A channel to a real broker, and to peers that refuse, are silent or hang up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.clock.real import RealClock
from broker.network.real import RealNetwork
from bus.client.wire.channel import Address, ChannelLimits, PeerChannel, PeerError, PeerErrorKind
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.generated.vote import VoteRequest
from deploy.servers.databus import RunningBroker

LONG_MS = 60_000
QUICK = ChannelLimits(setup_timeout_ms=60_000, reconnect_backoff_ms=1, reconnect_backoff_max_ms=5)


def channel(address: Address | Callable[[], Address | None], **how: Any) -> PeerChannel:
    where = address if callable(address) else lambda: address
    return PeerChannel(
        RealNetwork(), RealClock(1), where, client_id="test", name="peer", limits=QUICK, **how
    )


def address_of(running: RunningBroker) -> Address:
    host, _, port = running.bootstrap.rpartition(":")
    return Address(host, int(port))


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


class Silent(asyncio.Protocol):
    """Accepts and says nothing; counts its connections."""

    made = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Silent.made += 1


class HangsUp(asyncio.Protocol):
    """Closes as soon as it receives anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.close()


async def with_server(
    protocol: type[asyncio.Protocol], use: Callable[[Address], Coroutine[Any, Any, None]]
) -> None:
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        await use(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
    finally:
        server.close()


def test_a_request_is_answered_in_the_newest_version_both_know(running_broker: RunningBroker):
    """Versions are negotiated when the connection opens."""

    async def run() -> None:
        peer = channel(address_of(running_broker))
        answer = await peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
        assert answer.cluster_id == running_broker.cluster_id
        versions = []
        await peer.request_versioned(
            ApiKey.METADATA,
            lambda version: versions.append(version) or metadata(),  # type: ignore[func-returns-value]
            timeout_ms=LONG_MS,
            max_version=9,
        )
        assert versions == [9]
        peer.close()

    asyncio.run(run())


def test_an_api_the_peer_does_not_serve_is_an_error_that_keeps_the_connection(
    running_broker: RunningBroker,
):
    """UNSUPPORTED_VERSION says nothing against the connection."""

    async def run() -> None:
        peer = channel(address_of(running_broker))
        with pytest.raises(PeerError) as caught:
            await peer.request(ApiKey.VOTE, VoteRequest(), timeout_ms=LONG_MS)
        assert caught.value.kind is PeerErrorKind.UNSUPPORTED_VERSION
        assert peer.connected
        await peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
        peer.close()

    asyncio.run(run())


@pytest.mark.parametrize("pipelined", [False, True])
def test_many_requests_at_once_are_all_answered(running_broker: RunningBroker, pipelined: bool):
    """Every waiting request gets its turn, with one connection for all."""

    async def run() -> None:
        connected = []
        peer = channel(address_of(running_broker), pipelined=pipelined)
        peer.on_connected = lambda: connected.append(True)
        answers = await asyncio.gather(
            *(peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS) for _ in range(100))
        )
        assert len(answers) == 100
        assert connected == [True]
        peer.close()

    asyncio.run(run())


def test_a_peer_that_is_not_there_refuses():
    """REFUSED is a kind of its own: nothing listens, so the request was not acted on."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        peer = channel(Address("127.0.0.1", port))
        for _ in range(3):
            with pytest.raises(PeerError) as caught:
                await peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
            assert caught.value.kind is PeerErrorKind.REFUSED

    asyncio.run(run())


def test_a_silent_peer_costs_no_more_than_the_time_out():
    """The request ends, its connection is dropped, and the next one opens another."""

    async def use(address: Address) -> None:
        Silent.made = 0
        peer = channel(address)
        for _ in range(2):
            with pytest.raises(PeerError) as caught:
                await peer.request(ApiKey.METADATA, metadata(), timeout_ms=50)
            assert caught.value.kind is PeerErrorKind.TIMED_OUT
            assert not peer.connected
        assert Silent.made >= 1

    asyncio.run(with_server(Silent, use))


def test_a_peer_that_hangs_up_is_news():
    """It calls `on_lost`, and the request fails immediately with DISCONNECTED."""

    async def use(address: Address) -> None:
        lost = []
        peer = channel(address)
        peer.on_lost = lambda: lost.append(True)
        with pytest.raises(PeerError) as caught:
            await peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
        assert caught.value.kind is PeerErrorKind.DISCONNECTED
        assert lost == [True]

    asyncio.run(with_server(HangsUp, use))


def test_waiting_behind_a_dead_request_ends_at_ones_own_time_out():
    """The queue of a channel never holds a request longer than it allowed."""

    async def use(address: Address) -> None:
        peer = channel(address)
        first = asyncio.ensure_future(
            peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
        )
        await asyncio.sleep(0)
        with pytest.raises(PeerError) as caught:
            await peer.request(ApiKey.METADATA, metadata(), timeout_ms=30)
        assert caught.value.kind is PeerErrorKind.TIMED_OUT
        peer.close()
        first.cancel()
        with pytest.raises((asyncio.CancelledError, PeerError)):
            await first

    asyncio.run(with_server(Silent, use))


def test_a_peer_without_an_address_is_told_at_once():
    """No address yet (the image does not know the broker): DISCONNECTED, after the back-off."""

    async def run() -> None:
        peer = channel(lambda: None)
        for _ in range(3):
            with pytest.raises(PeerError) as caught:
                await peer.request(ApiKey.METADATA, metadata(), timeout_ms=LONG_MS)
            assert caught.value.kind is PeerErrorKind.DISCONNECTED

    asyncio.run(run())
