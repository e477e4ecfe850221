"""Connections of a broker in ZooKeeper mode: as controller to all brokers, as broker to it.

In: who is where. Out: answers, or SendError and PeerError. Never: what is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.metadata.image import MetadataImage
from broker.peer.channel import ChannelLimits, PeerChannel
from broker.peer.controller_link import ControllerLink, LocalCall, Route
from broker.peer.errors import PeerError, PeerErrorKind
from broker.peer.port import Address
from broker.server.links import inter_broker_endpoint
from broker.server.plane import Ports
from bus.protocol.apis import ApiKey
from bus.protocol.generated.controlled_shutdown import ControlledShutdownRequest

log = logging.getLogger("broker.server")


class BrokerLinks:
    """Channels of the controller, one per broker; requests to itself take no socket."""

    def __init__(
        self, ports: Ports, controller: ZooKeeperController, local_call: LocalCall
    ) -> None:
        self._ports = ports
        self._controller = controller
        self._local_call = local_call
        self._channels: dict[int, PeerChannel] = {}
        self.on_lost: Callable[[int], None] | None = None
        self.on_answer: Callable[[int], None] | None = None

    async def send(self, broker_id: int, key: int, body: object) -> Any:
        """The broker's answer. Raises SendError."""
        if broker_id == self._ports.config.node_id:
            return await self._local_call(key, body)
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = self._channel(broker_id)
        timeout_ms = int(self._ports.config["controller.socket.timeout.ms"])
        try:
            answer = await channel.request(key, body, timeout_ms=timeout_ms)
        except PeerError as error:
            if error.kind is PeerErrorKind.REFUSED:
                self._lost(broker_id)
            raise SendError(str(error)) from error
        if self.on_answer is not None:
            self.on_answer(broker_id)
        return answer

    def _lost(self, broker_id: int) -> None:
        if self.on_lost is not None:
            self.on_lost(broker_id)

    def forget(self) -> None:
        """Only an active controller speaks to others (C-RS-07)."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def close(self) -> None:
        """For good."""
        self.forget()

    def address(self, broker_id: int) -> Address | None:
        """Where a broker listens for brokers."""
        for image in (self._controller.image, self._controller.committed):
            broker = image.brokers.get(broker_id)
            if broker is not None:
                end = inter_broker_endpoint(broker, self._ports.config)
                return None if end is None else Address(end.host, end.port)
        return None

    def to_controller(self) -> ControllerLink:
        """A link for this broker's own farewell."""
        ports = self._ports
        route = Route(
            ports.config.node_id,
            lambda: self._controller.leader_id,
            self.address,
            self._local_call,
        )
        return ControllerLink(ports.network, ports.clock, route, name="farewell")

    def _channel(self, broker_id: int) -> PeerChannel:
        ports = self._ports
        channel = PeerChannel(
            ports.network,
            ports.clock,
            lambda: self.address(broker_id),
            client_id=f"controller-{ports.config.node_id}",
            name=f"broker {broker_id} (controller)",
            limits=ChannelLimits(
                setup_timeout_ms=ports.config["socket.connection.setup.timeout.ms"]
            ),
        )
        channel.on_lost = lambda: self._lost(broker_id)
        return channel


async def hand_over(
    ports: Ports, links: BrokerLinks, image: MetadataImage, broker_epoch: int
) -> None:
    """ControlledShutdown until nothing is left that others could lead, or the tries are used up:
    the broker stops in any case (G-43)."""
    config = ports.config
    me = config.node_id
    others = any(broker_id != me for broker_id in image.brokers)
    if not others or not config["controlled.shutdown.enable"]:
        return
    link = links.to_controller()
    request = ControlledShutdownRequest(broker_id=me, broker_epoch=broker_epoch)
    timeout_ms = int(config["controlled.shutdown.retry.backoff.ms"])
    try:
        for left in reversed(range(int(config["controlled.shutdown.max.retries"]))):
            answer = await link.request(
                ApiKey.CONTROLLED_SHUTDOWN, request, timeout_ms=timeout_ms
            )
            if not answer.error_code and not answer.remaining_partitions:
                return
            log.info("%d partitions are still led here", len(answer.remaining_partitions))
            if left:
                await ports.clock.sleep(timeout_ms / 1000)
    except PeerError as error:
        log.warning("leadership was not handed over: %s", error)
    finally:
        link.close()
