"""Registers a controller's listeners until the metadata has them (KIP-919).

One ControllerRegistration (70) per process. The quorum works without it; tools find controllers
by it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.metadata.image import Endpoint, MetadataImage
from broker.metadata.versions import SUPPORTED
from broker.peer.controller_channel import ControllerChannel
from bus.client.wire.errors import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

log = logging.getLogger("broker.server")

TIMEOUT_MS = 30_000
"""One attempt, elections included."""

RETRY_S = 1.0
"""Nothing waits for the registration."""


class ControllerRegistration:
    """The registration of one controller."""

    def __init__(
        self,
        clock: Clock,
        link: ControllerChannel,
        image: Callable[[], MetadataImage],
        node_id: int,
        endpoints: tuple[Endpoint, ...],
    ) -> None:
        self._clock = clock
        self._link = link
        self._image = image
        self._node_id = node_id
        self._endpoints = endpoints
        self._incarnation_id = clock.new_uuid()
        self._task: TaskHandle | None = None

    def start(self) -> None:
        """Register in the background."""
        self._task = self._clock.spawn(self._run(), name="controller-registration")

    def stop(self) -> None:
        """Stop registering."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while not self._is_known():
            try:
                answer = await self._link.request(
                    ApiKey.CONTROLLER_REGISTRATION, self._request(), timeout_ms=TIMEOUT_MS
                )
            except PeerError as error:
                log.debug("controller %d is not registered: %s", self._node_id, error)
            else:
                if answer.error_code == ErrorCode.NONE:
                    return
                log.info(
                    "controller %d is not registered: %s",
                    self._node_id, ErrorCode.of(answer.error_code).name,
                )  # fmt: skip
            await self._clock.sleep(RETRY_S)

    def _is_known(self) -> bool:
        held = self._image().controllers.get(self._node_id)
        return held is not None and held.incarnation_id == self._incarnation_id

    def _request(self) -> ControllerRegistrationRequest:
        return ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=end.name, host=end.host, port=end.port,
                    security_protocol=end.security_protocol,
                )
                for end in self._endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED.items())
            ],
        )
