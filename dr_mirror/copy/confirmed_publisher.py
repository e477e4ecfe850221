"""Confirmed offsets on `control.mirror-confirmed` of one of the two clusters, once a second.

In: what the target holds. Out: a Produce request with what has changed. Core: `ConfirmedOffsets`.
Never: a wait of the copy for it; a cluster that does not answer is told later.
"""

from __future__ import annotations

import asyncio
import logging

from bus.client.admin import commands
from bus.client.wire.channel import PeerError
from bus.client.wire.sync_client import SyncClient
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, TOPICS
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from bus.records.build import build_batch
from bus.records.codecs import Compression
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.plan.confirmed import ConfirmedOffsets, confirmed_records
from dr_mirror.settings import MirrorSettings

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-confirmed"
EVERY_S = 1.0
AGAIN_S = 3.0
"""After a failure: what waits is only what has changed, and the newest value is enough."""
TIMEOUT_MS = 10_000
ALL_REPLICAS = -1
BY_NAME = 12
"""The newest version of Produce and Metadata that names topics."""
NO_NODE = -1


class ConfirmedPublisher:
    """`run` until cancelled. Invariant: one request under way."""

    def __init__(self, context: CopyContext, *, at_target: bool) -> None:
        """At one of the two clusters."""
        settings = context.settings
        self._context = context
        self._is_at_target = at_target
        self._name = "target" if at_target else "source"
        self._channels = context.target if at_target else context.source
        self._bus = settings.target_bus if at_target else settings.source_bus
        self._offsets = ConfirmedOffsets()
        self._leader = NO_NODE
        self._is_failing = False

    async def run(self) -> None:
        """Publish again and again."""
        while True:
            await asyncio.sleep(AGAIN_S if self._is_failing else EVERY_S)
            try:
                await self._publish()
                self._is_failing = False
            except (BusError, PeerError) as error:
                self._leader = NO_NODE
                if not self._is_failing:
                    log.info("confirmed offsets reach the %s later: %s", self._name, error)
                self._is_failing = True

    async def _publish(self) -> None:
        at_ms = now_ms()
        due = self._offsets.due(self._context.copied.confirmed(), at_ms)
        if not due:
            return
        if self._leader == NO_NODE:
            self._leader = await self._find_leader()
        batch = build_batch(
            confirmed_records(due, self._context.clusters, at_ms), compression=Compression.LZ4
        )
        data = TopicProduceData(
            CONTROL_MIRROR_CONFIRMED, partition_data=[PartitionProduceData(0, batch)]
        )
        answer = await self._channels.channel(self._leader, "confirmed").request(
            ApiKey.PRODUCE, ProduceRequest(None, ALL_REPLICAS, TIMEOUT_MS, [data]),
            timeout_ms=TIMEOUT_MS, max_version=BY_NAME,
        )  # fmt: skip
        result = answer.responses[0].partition_responses[0]
        if result.error_code:
            raise BusError(ErrorCode.of(result.error_code), CONTROL_MIRROR_CONFIRMED)
        self._offsets.on_published(due, at_ms)

    async def _find_leader(self) -> int:
        """The topic is made where it is missing: a source that is not ours has none."""
        copied = self._context.copied
        nodes = copied.target_nodes if self._is_at_target else copied.source_nodes
        node = next(iter(nodes), None)
        if node is None:
            raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker of the {self._name}")
        asked = MetadataRequest(
            [MetadataRequestTopic(name=CONTROL_MIRROR_CONFIRMED)], allow_auto_topic_creation=False
        )
        answer = await self._channels.channel(node, "confirmed").request(
            ApiKey.METADATA, asked, timeout_ms=TIMEOUT_MS, max_version=BY_NAME
        )
        topic = answer.topics[0]
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            await asyncio.to_thread(_create_topic, self._bus, self._context.settings)
        if topic.error_code:
            raise BusError(ErrorCode.of(topic.error_code), CONTROL_MIRROR_CONFIRMED)
        leader = int(topic.partitions[0].leader_id)
        if leader == NO_NODE:
            raise BusError(ErrorCode.LEADER_NOT_AVAILABLE, CONTROL_MIRROR_CONFIRMED)
        return leader


def _create_topic(bus: BusSettings, settings: MirrorSettings) -> None:
    contract = TOPICS[CONTROL_MIRROR_CONFIRMED]
    with SyncClient.of(bus, CLIENT_ID) as client:
        commands.create_topic(
            client, contract.name, partitions=contract.partitions,
            replication_factor=settings.replication_factor, configs=contract.configs,
        )  # fmt: skip
