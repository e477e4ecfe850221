"""Detects a dead process before its session ends: its connections are reset and its port is closed.

After a lost connection and failed probes it removes what that process left in ZooKeeper, so that
its end is noticed now and not a session timeout later. A paused broker resets nothing and is found
by its session.

Only the elected controller removes a broker's node. Every broker may remove `/controller` itself,
under the epoch that was read: the next elected controller fences the old one, and if the probe was
wrong the old one takes part in the election like the others.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk import znodes
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.port import Check, Delete, ZooKeeperError, ZooKeeperSession
from broker.controller.zk.state_reader import get_or_none
from broker.metadata.image import BrokerImage, Endpoint

log = logging.getLogger("broker.controller.zk")

Probe = Callable[[Endpoint], Awaitable[bool]]

PROBES = 3
"""A process that is being killed may still answer the first one; after this many it is alive."""

PROBE_GAP_S = 0.2

QUIET_S = 60.0
"""After a removal that broker is left to its session for this long, unless it has responded since:
one that is alive but unreachable from here registers again, and must not be removed in a loop."""


class FailureDetector:
    """At most one check of a broker at a time."""

    def __init__(
        self,
        node_id: int,
        session: ZooKeeperSession,
        clock: Clock,
        controller: ZooKeeperController,
        probe: Probe,
    ) -> None:
        self._node_id = node_id
        self._session = session
        self._clock = clock
        self._controller = controller
        self._probe = probe
        self._probes: dict[int, TaskHandle] = {}
        self._quiet_until: dict[int, float] = {}

    def connection_lost(self, broker_id: int) -> None:
        """A connection with this broker was reset or refused."""
        concerned = self._controller.is_active or broker_id == self._controller.leader_id
        if not concerned or broker_id in self._probes or broker_id == self._node_id:
            return
        if self._clock.monotonic() < self._quiet_until.get(broker_id, 0.0):
            return
        broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and broker.endpoints:
            self._probes[broker_id] = self._clock.spawn(
                self._probe_broker(broker), name=f"probe-{broker_id}"
            )

    def stop(self) -> None:
        """Stops all checks."""
        for task in list(self._probes.values()):
            task.cancel()

    async def _probe_broker(self, broker: BrokerImage) -> None:
        try:
            for _ in range(PROBES):
                if not await self._probe(broker.endpoints[0]):
                    await self._remove(broker)
                    return
                await self._clock.sleep(PROBE_GAP_S)
        except (ZooKeeperError, znodes.ZnodeError) as error:
            log.info("broker %d is left to its session: %s", broker.broker_id, error)
        finally:
            self._probes.pop(broker.broker_id, None)

    def on_response(self, broker_id: int) -> None:
        """The broker is alive and reachable from here."""
        self._quiet_until.pop(broker_id, None)

    async def _remove(self, broker: BrokerImage) -> None:
        if self._controller.is_active:
            await self._remove_broker(broker)
        elif broker.broker_id == self._controller.leader_id:
            await self._remove_controller(broker.broker_id)

    async def _remove_broker(self, broker: BrokerImage) -> None:
        path = f"{znodes.BROKER_IDS}/{broker.broker_id}"
        found = await get_or_none(self._session, path)
        if found is not None and found[1].czxid == broker.epoch:
            log.warning("broker %d has gone: its connection was reset and a probe failed",
                        broker.broker_id)
            self._quiet_until[broker.broker_id] = self._clock.monotonic() + QUIET_S
            await self._session.delete(path, found[1].version)

    async def _remove_controller(self, broker_id: int) -> None:
        epoch = await self._session.exists(znodes.CONTROLLER_EPOCH)
        found = await get_or_none(self._session, znodes.CONTROLLER)
        if epoch is None or found is None or znodes.decode_controller(found[0]) != broker_id:
            return
        log.warning("controller %d has gone: its connection was reset and a probe failed",
                    broker_id)
        await self._session.multi((
            Check(znodes.CONTROLLER_EPOCH, epoch.version), Delete(znodes.CONTROLLER),
        ))  # fmt: skip
