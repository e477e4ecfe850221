"""Connections to the brokers of one cluster, by broker and purpose.

In: a view of the cluster. Out: channels that follow a broker that moves. Never: a request.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.wire.channel import PeerChannel
from bus.client.wire.loop_ports import LoopConnector
from bus.client.wire.ports import Address, ChannelClock
from bus.client.wire.security import wire_security
from bus.settings import BusSettings


class ClusterChannels:
    """Invariant: one channel per broker and purpose that was asked for."""

    def __init__(
        self,
        name: str,
        bus: BusSettings,
        clock: ChannelClock,
        client_id: str,
        send_buffer_bytes: int = 0,
        receive_buffer_bytes: int = 0,
    ) -> None:
        """Of `bus`, only how brokers are reached. Raises BusError SECURITY_DISABLED."""
        security = wire_security(bus.librdkafka)
        self._name = name
        self._connector = LoopConnector(send_buffer_bytes, receive_buffer_bytes, security.tls)
        self._login = security.login
        self._clock = clock
        self._client_id = client_id
        self._nodes: dict[int, Address] = {}
        self._channels: dict[tuple[int, str], PeerChannel] = {}

    def update(self, nodes: Mapping[int, Address]) -> None:
        """The brokers as the cluster shows them now. One that is not shown keeps its address: it
        may be restarting."""
        self._nodes.update(nodes)

    def channel(self, node: int, purpose: str, *, pipelined: bool = False) -> PeerChannel:
        """The channel to a broker for one purpose."""
        found = self._channels.get((node, purpose))
        if found is None:
            found = self._channels[node, purpose] = PeerChannel(
                self._connector,
                self._clock,
                lambda: self._nodes.get(node),
                client_id=self._client_id,
                name=f"{self._name} broker {node}",
                pipelined=pipelined,
                login=self._login,
            )
        return found

    def close(self) -> None:
        """Close all for good."""
        for channel in self._channels.values():
            channel.close()
