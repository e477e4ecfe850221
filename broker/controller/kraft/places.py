"""Where the nodes of the quorum are, and the connections to them.

In: voters, bootstrap servers, what responses say of nodes. Out: requests sent, answers told by
callback. Core of each connection: `PeerChannel`. Never: when to send what; the machine knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.clock.port import Clock, TaskHandle
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.peer.channel import Address, ChannelLimits, PeerChannel
from broker.peer.errors import PeerError, PeerErrorKind
from broker.peer.port import Network

BOOTSTRAP = -2
"""Ids of bootstrap servers go down from here, as in Kafka: their node ids are not known yet."""

QUORUM_LIMITS = ChannelLimits(
    setup_timeout_ms=1_000, reconnect_backoff_ms=20, reconnect_backoff_max_ms=200
)
"""A voter that comes back should be found before its election time-out makes a difference."""

MAX_LEARNED = 1000
"""Places learned from responses; a quorum has a handful."""


class PlaceError(Exception):
    """A place in the configuration that makes no sense; the text names the key."""


@dataclass(frozen=True, slots=True)
class Places:
    """What the configuration says of the quorum."""

    static: VoterSet | None
    bootstrap: tuple[Address, ...]


def configured(voters: tuple[str, ...], servers: tuple[str, ...], listener: str) -> Places:
    """Read controller.quorum.voters and controller.quorum.bootstrap.servers."""
    static = None
    if voters:
        named = [_voter(text, listener) for text in voters]
        twice = {one.key.id for one in named if [o.key.id for o in named].count(one.key.id) > 1}
        if twice:
            raise PlaceError(f"controller.quorum.voters names {min(twice)} more than once")
        static = VoterSet.of(named)
    return Places(
        static, tuple(_address(text, "controller.quorum.bootstrap.servers") for text in servers)
    )


def _voter(text: str, listener: str) -> Voter:
    number, at, place = text.partition("@")
    if not at or not number.isdecimal():
        raise PlaceError(f"controller.quorum.voters: {text} is not ID@HOST:PORT")
    address = _address(place, "controller.quorum.voters")
    return Voter(ReplicaKey(int(number)), (Endpoint(address.host, address.port, listener),), 0)


def _address(text: str, key: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise PlaceError(f"{key}: {text} is not HOST:PORT")
    return Address(host.strip("[]"), int(port))


class Links:
    """Channels by (node, purpose): a long fetch must not hold up a vote."""

    def __init__(
        self, network: Network, clock: Clock, name: str, bootstrap: tuple[Address, ...]
    ) -> None:
        self._network = network
        self._clock = clock
        self._name = name
        self._places: dict[int, Address] = {
            BOOTSTRAP - at: address for at, address in enumerate(bootstrap)
        }
        self._voters: dict[int, Address] = {}
        self._channels: dict[tuple[int, str], PeerChannel] = {}
        self._tasks: dict[int, TaskHandle] = {}
        self._next_task = 0
        self.on_lost: Callable[[int], None] = lambda _: None

    @property
    def bootstrap_ids(self) -> tuple[int, ...]:
        """The negative ids of the bootstrap servers."""
        return tuple(sorted((one for one in self._places if one <= BOOTSTRAP), reverse=True))

    def set_voters(self, voters: VoterSet) -> None:
        """Voters are where their record says."""
        self._voters = {
            voter.key.id: Address(voter.endpoints[0].host, voter.endpoints[0].port)
            for voter in voters.voters
            if voter.endpoints and voter.endpoints[0].port > 0
        }
        for node_id in self._voters:
            self._places.pop(node_id, None)

    def learn(self, places: dict[int, tuple[str, int]]) -> None:
        """A response named nodes and where they are."""
        for node_id, (host, port) in places.items():
            if node_id in self._places or len(self._places) < MAX_LEARNED:
                self._places[node_id] = Address(host, port)

    def place_of(self, node_id: int) -> Address | None:
        """Where a node is, as far as is known; the newest word of itself first."""
        return self._places.get(node_id) or self._voters.get(node_id)

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
        """Send; later `done(response)` or `failed(refused)`."""
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
                lambda: self.place_of(to),
                client_id=self._name,
                name=f"quorum node {to}",
                limits=QUORUM_LIMITS,
            )
            found.on_lost = lambda: self.on_lost(to)
        return found

    def close(self) -> None:
        """Close everything; nobody is called afterwards."""
        for _, task in sorted(self._tasks.items()):
            task.cancel()
        self._tasks.clear()
        for _, channel in sorted(self._channels.items()):
            channel.close()
