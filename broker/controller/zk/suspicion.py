"""A dead process is known before its session ends: its connections are reset and nobody listens.

In: news that a connection to or from a broker was lost. Out: after probes have failed, the removal
of what that process left in ZooKeeper, so that its end is seen now and not a session later.
Never: a leader chosen here. A paused broker resets nothing and is found by its session.

Only the elected controller removes a broker's node. Of the controller itself everybody may remove
`/controller`, under the epoch that is looked at: whoever is elected next fences the old one, and if
the probe was wrong that one stands for election again like everybody else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from broker.clock.port import Clock, TaskHandle
from broker.controller.zk import znodes
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.load import get_or_none
from broker.controller.zk.port import Check, Delete, ZooKeeperError, ZooKeeperSession
from broker.metadata.image import BrokerImage, Endpoint

log = logging.getLogger("broker.controller.zk")

Probe = Callable[[Endpoint], Awaitable[bool]]

PROBES = 3
"""A process that is being killed may still answer the first one; after this many it lives."""

PROBE_GAP_S = 0.2

QUIET_S = 60.0
"""After a removal that broker is left to its session for so long, unless it has answered since:
one that lives but cannot be reached from here registers again, and must not be thrown out in a
circle."""


class Suspicions:
    """At most one look at a broker at a time."""

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
        self._looks: dict[int, TaskHandle] = {}
        self._quiet_until: dict[int, float] = {}

    def connection_lost(self, broker_id: int) -> None:
        """A connection with this broker was reset or refused."""
        concerned = self._controller.is_active or broker_id == self._controller.leader_id
        if not concerned or broker_id in self._looks or broker_id == self._node_id:
            return
        if self._clock.monotonic() < self._quiet_until.get(broker_id, 0.0):
            return
        broker = self._controller.image.brokers.get(broker_id)
        if broker is not None and broker.endpoints:
            self._looks[broker_id] = self._clock.spawn(
                self._look(broker), name=f"probe-{broker_id}"
            )

    def stop(self) -> None:
        """Look no more."""
        for task in list(self._looks.values()):
            task.cancel()

    async def _look(self, broker: BrokerImage) -> None:
        try:
            for _ in range(PROBES):
                if not await self._probe(broker.endpoints[0]):
                    await self._remove(broker)
                    return
                await self._clock.sleep(PROBE_GAP_S)
        except (ZooKeeperError, znodes.ZnodeError) as error:
            log.info("broker %d is left to its session: %s", broker.broker_id, error)
        finally:
            self._looks.pop(broker.broker_id, None)

    def answered(self, broker_id: int) -> None:
        """The broker is there, and can be reached from here."""
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
