"""Connections of a broker in ZooKeeper mode: as controller to all brokers, as broker to it.

Requests raise SendError (to brokers) or PeerError (to the controller).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.metadata.image import MetadataImage
from broker.peer.controller_channel import ControllerChannel, ControllerLocator, LocalCall
from broker.server.control_plane import Runtime
from broker.server.listeners import inter_broker_listener
from bus.client.wire.channel import ChannelLimits, PeerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import Address
from bus.protocol.apis import ApiKey
from bus.protocol.generated.controlled_shutdown import ControlledShutdownRequest

log = logging.getLogger("broker.server")


class BrokerChannels:
    """Channels of the controller, one per broker; requests to itself use no socket."""

    def __init__(
        self, runtime: Runtime, controller: ZooKeeperController, local_call: LocalCall
    ) -> None:
        self._runtime = runtime
        self._controller = controller
        self._local_call = local_call
        self._channels: dict[int, PeerChannel] = {}
        self.on_lost: Callable[[int], None] | None = None
        self.on_response: Callable[[int], None] | None = None

    async def send(self, broker_id: int, key: int, body: object) -> Any:
        """The broker's response. Raises SendError."""
        if broker_id == self._runtime.config.node_id:
            return await self._local_call(key, body)
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = self._channel(broker_id)
        timeout_ms = int(self._runtime.config["controller.socket.timeout.ms"])
        try:
            answer = await channel.request(key, body, timeout_ms=timeout_ms)
        except PeerError as error:
            if error.kind is PeerErrorKind.REFUSED:
                self._on_lost(broker_id)
            raise SendError(str(error)) from error
        if self.on_response is not None:
            self.on_response(broker_id)
        return answer

    def _on_lost(self, broker_id: int) -> None:
        if self.on_lost is not None:
            self.on_lost(broker_id)

    def close_all(self) -> None:
        """Only an active controller sends requests to others (C-RS-07)."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def close(self) -> None:
        """Close all channels for good."""
        self.close_all()

    def address(self, broker_id: int) -> Address | None:
        """The address of a broker's inter-broker listener."""
        for image in (self._controller.image, self._controller.committed):
            broker = image.brokers.get(broker_id)
            if broker is not None:
                end = inter_broker_listener(broker.endpoints, self._runtime.config)
                return None if end is None else Address(end.host, end.port)
        return None

    def to_controller(self) -> ControllerChannel:
        """A channel for this broker's own controlled shutdown."""
        runtime = self._runtime
        route = ControllerLocator(
            runtime.config.node_id,
            lambda: self._controller.leader_id,
            self.address,
            self._local_call,
        )
        login = runtime.roles.controller_login
        return ControllerChannel(
            runtime.to_controllers, runtime.clock, route, name="farewell", login=login
        )

    def _channel(self, broker_id: int) -> PeerChannel:
        runtime = self._runtime
        channel = PeerChannel(
            runtime.to_peers,
            runtime.clock,
            lambda: self.address(broker_id),
            client_id=f"controller-{runtime.config.node_id}",
            name=f"broker {broker_id} (controller)",
            limits=ChannelLimits(
                setup_timeout_ms=runtime.config["socket.connection.setup.timeout.ms"]
            ),
            login=runtime.roles.peer_login,
        )
        channel.on_lost = lambda: self._on_lost(broker_id)
        return channel


async def controlled_shutdown(
    runtime: Runtime, channels: BrokerChannels, image: MetadataImage, broker_epoch: int
) -> None:
    """Send ControlledShutdown until this broker leads nothing that others could lead, or the
    attempts are used up: the broker stops in any case (G-43)."""
    config = runtime.config
    me = config.node_id
    others = any(broker_id != me for broker_id in image.brokers)
    if not others or not config["controlled.shutdown.enable"]:
        return
    channel = channels.to_controller()
    request = ControlledShutdownRequest(broker_id=me, broker_epoch=broker_epoch)
    timeout_ms = int(config["controlled.shutdown.retry.backoff.ms"])
    try:
        for left in reversed(range(int(config["controlled.shutdown.max.retries"]))):
            answer = await channel.request(
                ApiKey.CONTROLLED_SHUTDOWN, request, timeout_ms=timeout_ms
            )
            if not answer.error_code and not answer.remaining_partitions:
                return
            log.info("%d partitions are still led here", len(answer.remaining_partitions))
            if left:
                await runtime.clock.sleep(timeout_ms / 1000)
    except PeerError as error:
        log.warning("leadership was not handed over: %s", error)
    finally:
        channel.close()
