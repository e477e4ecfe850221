"""Creates every connection of this process to brokers and controllers, and closes them."""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.metadata.image import MetadataImage
from broker.peer.controller_channel import ControllerChannel, ControllerLocator, LocalCall
from broker.server.control_plane import ControlPlane
from broker.server.listeners import inter_broker_listener
from bus.client.wire.channel import ChannelLimits, PeerChannel
from bus.client.wire.ports import Address, Connector
from bus.client.wire.sasl import SaslLogin


class PeerConnections:
    """Closes the channels to controllers; users of channels to brokers close those themselves."""

    def __init__(
        self,
        to_brokers: Connector,
        to_controllers: Connector,
        clock: Clock,
        config: BrokerConfig,
        control_plane: ControlPlane,
        image: Callable[[], MetadataImage],
        local_call: LocalCall,
        broker_lost: Callable[[int], None],
        broker_connected: Callable[[int], None],
        peer_login: SaslLogin | None = None,
        controller_login: SaslLogin | None = None,
    ) -> None:
        """Connectors and logins: for the inter-broker listeners of others, and for controllers."""
        self._to_brokers, self._controller_connector = to_brokers, to_controllers
        self._clock = clock
        self._config = config
        self._control_plane = control_plane
        self._image = image
        self._broker_lost = broker_lost
        self._broker_connected = broker_connected
        self._peer_login, self._controller_login = peer_login, controller_login
        self._limits = ChannelLimits(
            setup_timeout_ms=config["socket.connection.setup.timeout.ms"]
        )
        self._route = ControllerLocator(
            config.node_id,
            lambda: control_plane.controller.leader_id,
            control_plane.controller_address,
            local_call,
        )
        self._to_controllers: list[ControllerChannel] = []
        control_plane.on_leader_change(self._leader_changed)

    def to_controller(self, name: str, *, pipelined: bool = False) -> ControllerChannel:
        """A channel for this purpose that follows the active controller."""
        link = ControllerChannel(
            self._controller_connector,
            self._clock,
            self._route,
            name=name,
            pipelined=pipelined,
            limits=self._limits,
            login=self._controller_login,
        )
        self._to_controllers.append(link)
        return link

    def to_broker(self, broker_id: int, name: str) -> PeerChannel:
        """A channel to a broker's inter-broker listener, at the address in the newest image."""
        channel = PeerChannel(
            self._to_brokers,
            self._clock,
            lambda: self._broker_address(broker_id),
            client_id=f"broker-{self._config.node_id}-{name}",
            name=f"broker {broker_id} ({name})",
            limits=self._limits,
            login=self._peer_login,
        )
        channel.on_lost = lambda: self._broker_lost(broker_id)
        channel.on_connected = lambda: self._broker_connected(broker_id)
        return channel

    def close(self) -> None:
        """Close the channels to controllers."""
        for link in self._to_controllers:
            link.close()

    def _leader_changed(self) -> None:
        for link in self._to_controllers:
            link.leader_changed()

    def _broker_address(self, broker_id: int) -> Address | None:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else inter_broker_listener(broker.endpoints, self._config)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)
