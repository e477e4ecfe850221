"""Topics are created, grown and deleted by people in the console, for its pages and its API alike.

In: who asks, what is to be. Out: the change on the brokers, and a line of the log that says whose
it is. Never: whether somebody may: the page or the route has decided that; a topic of the product
(`bus.domain.topic_orders`); two changes at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from bus.domain.topic_orders import (
    check_deletion,
    check_new_topic,
    check_not_own,
    check_partitions,
    topic_configs,
)
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-console-topics"
MAX_WAITING = 8
AS_BROKERS_SAY = -1


class TopicOrders:
    """Every method raises `CommandError` for what may not be asked and `BusError` for what the
    brokers say; when it returns, the controller has accepted it."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def create(
        self, account: str, name: str, *, partitions: int, replication_factor: int, cleanup: str,
        retention_days: int,
    ) -> None:  # fmt: skip
        """`replication_factor` 0: as the brokers say; `retention_days` 0: for ever."""
        check_new_topic(name, partitions, replication_factor, cleanup, retention_days)
        configs = topic_configs(cleanup, retention_days)
        await self._run(lambda client: commands.create_topic(
            client, name, partitions=partitions,
            replication_factor=replication_factor or AS_BROKERS_SAY, configs=configs,
        ))  # fmt: skip
        log.info("topics: %s created %s with %d partitions", account, name, partitions)

    async def grow(self, account: str, name: str, partitions: int) -> None:
        """Raise the number of partitions; it never becomes smaller."""
        check_not_own(name)
        check_partitions(partitions)
        await self._run(lambda client: commands.add_partitions(client, name, partitions))
        log.info("topics: %s raised %s to %d partitions", account, name, partitions)

    async def delete(self, account: str, name: str, typed: str) -> None:
        """With its records. `typed`: the name, written again."""
        check_deletion(name, typed)
        await self._run(lambda client: commands.delete_topic(client, name))
        log.warning("topics: %s deleted %s", account, name)

    async def _run(self, change: Callable[[SyncClient], None]) -> None:
        if self._waiting >= MAX_WAITING:
            raise BusError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "other changes are waiting already")
        self._waiting += 1
        try:
            async with self._lock:
                await asyncio.shield(asyncio.to_thread(self._change, change))
        finally:
            self._waiting -= 1

    def _change(self, change: Callable[[SyncClient], None]) -> None:
        with SyncClient.of(self._bus, CLIENT_ID) as client:
            change(client)
