"""The addresses of the quorum's nodes, and the connections to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.clock.port import Clock, TaskHandle
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from bus.client.wire.channel import Address, ChannelLimits, PeerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import Connector
from bus.client.wire.sasl import SaslLogin

BOOTSTRAP = -2
"""Ids of bootstrap servers count down from here, as in Kafka: their node ids are unknown."""

QUORUM_LIMITS = ChannelLimits(
    setup_timeout_ms=1_000, reconnect_backoff_ms=20, reconnect_backoff_max_ms=200
)
"""A voter that comes back should be reconnected well within its election timeout."""

MAX_LEARNED_ADDRESSES = 1000
"""Addresses taken from responses; a quorum has a handful."""


class QuorumAddressError(Exception):
    """An invalid address in the configuration; the text names the key."""


@dataclass(frozen=True, slots=True)
class QuorumAddresses:
    """The configured addresses of the quorum."""

    static_voters: VoterSet | None
    bootstrap: tuple[Address, ...]


def parse_quorum_addresses(
    voters: tuple[str, ...], servers: tuple[str, ...], listener: str
) -> QuorumAddresses:
    """Parses controller.quorum.voters and controller.quorum.bootstrap.servers."""
    static = None
    if voters:
        named = [_voter(text, listener) for text in voters]
        twice = {one.key.id for one in named if [o.key.id for o in named].count(one.key.id) > 1}
        if twice:
            raise QuorumAddressError(f"controller.quorum.voters names {min(twice)} more than once")
        static = VoterSet.of(named)
    return QuorumAddresses(
        static, tuple(_address(text, "controller.quorum.bootstrap.servers") for text in servers)
    )


def _voter(text: str, listener: str) -> Voter:
    number, at, place = text.partition("@")
    if not at or not number.isdecimal():
        raise QuorumAddressError(f"controller.quorum.voters: {text} is not ID@HOST:PORT")
    address = _address(place, "controller.quorum.voters")
    return Voter(ReplicaKey(int(number)), (VoterEndpoint(address.host, address.port, listener),), 0)


def _address(text: str, key: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise QuorumAddressError(f"{key}: {text} is not HOST:PORT")
    return Address(host.strip("[]"), int(port))


class QuorumConnections:
    """Channels by (node, purpose): a long fetch must not delay a vote."""

    def __init__(
        self,
        network: Connector,
        clock: Clock,
        name: str,
        bootstrap: tuple[Address, ...],
        login: SaslLogin | None = None,
    ) -> None:
        """`login`: what this node logs in with at the others."""
        self._network = network
        self._clock = clock
        self._name = name
        self._login = login
        self._addresses: dict[int, Address] = {
            BOOTSTRAP - at: address for at, address in enumerate(bootstrap)
        }
        self._voter_addresses: dict[int, Address] = {}
        self._channels: dict[tuple[int, str], PeerChannel] = {}
        self._tasks: dict[int, TaskHandle] = {}
        self._next_task = 0
        self.on_connection_lost: Callable[[int], None] = lambda _: None

    @property
    def bootstrap_ids(self) -> tuple[int, ...]:
        """The negative ids of the bootstrap servers."""
        return tuple(sorted((one for one in self._addresses if one <= BOOTSTRAP), reverse=True))

    def set_voters(self, voters: VoterSet) -> None:
        """Takes the voters' addresses from their record."""
        self._voter_addresses = {
            voter.key.id: Address(voter.endpoints[0].host, voter.endpoints[0].port)
            for voter in voters.voters
            if voter.endpoints and voter.endpoints[0].port > 0
        }
        for node_id in self._voter_addresses:
            self._addresses.pop(node_id, None)

    def update_endpoints(self, places: dict[int, tuple[str, int]]) -> None:
        """A response named nodes and their addresses."""
        for node_id, (host, port) in places.items():
            if node_id in self._addresses or len(self._addresses) < MAX_LEARNED_ADDRESSES:
                self._addresses[node_id] = Address(host, port)

    def address_of(self, node_id: int) -> Address | None:
        """A node's address, if known; what the node itself reported last comes first."""
        return self._addresses.get(node_id) or self._voter_addresses.get(node_id)

    def send(
        self,
        to: int,
        purpose: str,
        key: int,
        body: Any,
        timeout_ms: int,
        done: Callable[[Any], None],
        failed: Callable[[bool], None],
    ) -> None:
        """Sends a request; calls `done(response)` or `failed(refused)` later."""
        channel = self.channel(to, purpose)
        number, self._next_task = self._next_task, self._next_task + 1

        async def run() -> None:
            try:
                response = await channel.request(key, body, timeout_ms=timeout_ms)
            except PeerError as error:
                failed(error.kind in (PeerErrorKind.REFUSED, PeerErrorKind.DISCONNECTED))
            else:
                done(response)
            finally:
                self._tasks.pop(number, None)

        self._tasks[number] = self._clock.spawn(run(), name=f"quorum {purpose} to {to}")

    def channel(self, to: int, purpose: str) -> PeerChannel:
        """The connection to a node for a purpose."""
        found = self._channels.get((to, purpose))
        if found is None:
            found = self._channels[to, purpose] = PeerChannel(
                self._network,
                self._clock,
                lambda: self.address_of(to),
                client_id=self._name,
                name=f"quorum node {to}",
                limits=QUORUM_LIMITS,
                login=self._login,
            )
            found.on_lost = lambda: self.on_connection_lost(to)
        return found

    def close(self) -> None:
        """Closes everything; no callback runs afterwards."""
        for _, task in sorted(self._tasks.items()):
            task.cancel()
        self._tasks.clear()
        for _, channel in sorted(self._channels.items()):
            channel.close()
