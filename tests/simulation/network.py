"""A simulated network: TCP as processes see it, between the hosts of one world.

In: `listen` and `connect` of `broker.network.port.Network`, asyncio protocols behind them. Out:
ordered bytes or a reset; nothing is lost, duplicated or reordered inside a connection, because TCP
prevents that: a lost packet is a delay, a partition is silence until it heals (drop) or a reset
(reject), a dead machine is silence until it is up again, a dead process is FIN or a reset.
Never: real sockets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from broker.network.port import ListenError, ProtocolFactory, SocketBuffers
from tests.simulation.loop import ProcessLife, VirtualLoop
from tests.simulation.transport import SimTransport

FIRST_FREE_PORT = 40_000
SYN_RETRIES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
LATENCY_S = (0.0001, 0.0006)
LOST_PACKET = 0.002
"""Share of pieces that need a retransmission, and how long that takes."""
RETRANSMIT_S = (0.2, 0.8)
AFTER_MENDING_S = (0.2, 1.7)
"""Delay until bytes that waited behind a cut are sent again."""


class Cut(Enum):
    """How a link is cut."""

    DROP = "drop"
    REJECT = "reject"


@dataclass(slots=True)
class Link:
    """One direction between two hosts. `slow_s` is added to every piece; `ports`: cuts for the
    connections of one listener only."""

    cut: Cut | None = None
    slow_s: float = 0.0
    ports: dict[int, Cut] = field(default_factory=dict)


class SimServer:
    """One bound address of one process."""

    def __init__(self, network: SimNetwork, host: str, port: int) -> None:
        self._network, self._host, self._port = network, host, port

    @property
    def port(self) -> int:
        return self._port

    async def close(self) -> None:
        self._network.listening.pop((self._host, self._port), None)


class SimNetwork:
    """All hosts, links and connections of one world."""

    def __init__(
        self, loop: VirtualLoop, dice: random.Random, trace: Callable[[str, bytes], None]
    ) -> None:
        self.loop = loop
        self.trace = trace
        self.listening: dict[tuple[str, int], tuple[ProcessLife, ProtocolFactory]] = {}
        self.down: dict[str, bool] = {}
        self.latency_s = LATENCY_S
        self.lost_packet = LOST_PACKET
        self.after_mending_s = AFTER_MENDING_S
        self._dice = dice
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port = FIRST_FREE_PORT
        self.transports: dict[int, SimTransport] = {}
        self._count = 0

    # --- faults ----------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """The link of one direction, which the caller may change."""
        return self._links.setdefault((source, target), Link())

    def cut(self, source: str, target: str, how: Cut, port: int | None = None) -> None:
        """Cuts the direction from `source` to `target`; with `port` only connections to that port
        of either of them, as if a separate network of the controllers fails."""
        link = self.link(source, target)
        if port is None:
            link.cut = how
        else:
            link.ports[port] = how

    def repair(self, source: str, target: str) -> None:
        """Repairs the direction; waiting bytes are sent after TCP's retransmission time."""
        link = self.link(source, target)
        link.cut, link.slow_s = None, 0.0
        link.ports.clear()
        for transport in list(self.transports.values()):
            if (transport.local[0], transport.remote[0]) == (source, target):
                low, high = self.after_mending_s
                transport.retransmit(low + (high - low) * self._dice.random())

    def heal(self) -> None:
        """Repairs all links."""
        for source, target in list(self._links):
            self.repair(source, target)

    def host_lost_power(self, host: str) -> None:
        """Ends the host's connections without FIN or reset."""
        self.down[host] = True
        for transport in list(self.transports.values()):
            if transport.local[0] == host:
                transport.vanish()

    def host_is_up(self, host: str) -> None:
        """Lets peers that still send get a reset."""
        self.down[host] = False
        for transport in list(self.transports.values()):
            if transport.remote[0] == host:
                transport.retransmit(0.2 + self._dice.random())

    def process_died(self, life: ProcessLife) -> None:
        """Closes the process's connections, as the kernel does."""
        for address in [a for a, (owner, _) in self.listening.items() if owner is life]:
            del self.listening[address]
        for transport in list(self.transports.values()):
            if transport.life is life:
                transport.closed_by_kernel()

    # --- used by transports ----------------------------------------------------------------------

    def is_cut(self, source: str, target: str, *ports: int) -> Cut | None:
        """Whether and how the direction is cut for a connection between these ports."""
        link = self._links.get((source, target))
        if link is None:
            return None
        return link.cut or next((link.ports[port] for port in ports if port in link.ports), None)

    def delay_s(self, source: str, target: str) -> float:
        """The delay of the next piece."""
        low, high = self.latency_s
        delay = low + (high - low) * self._dice.random()
        if self._dice.random() < self.lost_packet:
            low, high = RETRANSMIT_S
            delay += low + (high - low) * self._dice.random()
        link = self._links.get((source, target))
        return delay if link is None else delay + link.slow_s

    def free_port(self) -> int:
        """A free port."""
        self._next_port += 1
        return self._next_port

    def register(self, transport: SimTransport) -> int:
        """Keeps the transport until it is closed; its number orders the transports."""
        self._count += 1
        self.transports[self._count] = transport
        return self._count


class ProcessNetwork:
    """Implements `broker.network.port.Network` for one process on one host."""

    def __init__(self, network: SimNetwork, life: ProcessLife, host: str) -> None:
        self._network, self._life, self._host = network, life, host

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, buffers: SocketBuffers | None = None
    ) -> SimServer:
        """Binds a port of this host; `host` and `buffers` are ignored."""
        network = self._network
        port = port or network.free_port()
        held = network.listening.get((self._host, port))
        if held is not None and not held[0].dead:
            raise ListenError(f"cannot listen on {host}:{port} (address in use)")
        network.listening[self._host, port] = (self._life, factory)
        return SimServer(network, self._host, port)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Opens a connection; without an answer it retries as TCP does."""
        network, here = self._network, self._host
        for wait_s in SYN_RETRIES_S:
            await asyncio.sleep(network.delay_s(here, host))
            cut = network.is_cut(here, host, port) or network.is_cut(host, here, port)
            if cut is Cut.REJECT:
                raise ConnectionRefusedError(111, f"{host}:{port} refused (rejected on the way)")
            if cut is None and not network.down.get(host, False):
                listening = network.listening.get((host, port))
                await asyncio.sleep(network.delay_s(host, here))
                if listening is None or listening[0].dead:
                    raise ConnectionRefusedError(111, f"{host}:{port} refused")
                return self._establish((host, port), factory, *listening)
            await asyncio.sleep(wait_s)
        raise TimeoutError(110, f"{host}:{port} does not answer")

    def _establish(
        self,
        target: tuple[str, int],
        factory: ProtocolFactory,
        server: ProcessLife,
        server_factory: ProtocolFactory,
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        network = self._network
        source = (self._host, network.free_port())
        near = SimTransport(network, self._life, source, target)
        far = SimTransport(network, server, target, source)
        near.peer, far.peer = far, near
        protocol = factory()
        near.begin(protocol)
        network.loop.call_soon(lambda: far.begin(server_factory()), context=server.context)
        return near, protocol
