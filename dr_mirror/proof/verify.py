"""Both sides compared at once, block of offsets by block.

In: the settings of the mirror. Out: a `PartitionComparison` per mirrored partition, or per replica
of it. Cores: `dr_mirror.proof.plan.digests`, `dr_mirror.proof.block_comparison`. Never: a change at
either side, and never a word about offsets that only one side still holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import PartitionDescription
from bus.client.wire.channel import PeerChannel
from bus.client.wire.loop_ports import LoopClock
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.settings import BusSettings
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.mirrored_cluster import MirroredCluster
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames
from dr_mirror.proof.block_comparison import BlockComparison, ReplicaComparison
from dr_mirror.proof.key_comparison import compare_keys
from dr_mirror.proof.plan.digests import BatchDifference
from dr_mirror.proof.replica_endpoints import (
    DigestEndpoint,
    EndpointError,
    FetchEndpoint,
    ReplicaEndpoint,
    is_supported,
)
from dr_mirror.settings import MirrorSettings
from dr_mirror.topics.topics import MirrorTopic

AT_ONCE = 4
"""Partitions compared at once; where records are fetched, one read is in memory for each."""
SLICE_BLOCKS = 1_000
"""Blocks whose digests are in memory at once."""
CLIENT_ID = "databus-mirror-verify"
PURPOSE = "verify"
NOTHING = BatchDifference(-1, -1, "")


class PartitionComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One partition at the target's leader, or at the replica on `broker`, over [first_offset,
    end_offset), which both sides hold. `differs_at`: the first offset that differs, -1: none;
    `differing` all ranges, bounded. A compacted topic has `keys` instead of `blocks`: it is
    compared by the last value of each. `skipped`: why it was not compared to the end."""

    topic: str
    partition: int
    broker: int = -1
    first_offset: int = -1
    end_offset: int = -1
    blocks: int = 0
    keys: int = 0
    size_bytes: int = 0
    differs_at: int = -1
    detail: str = ""
    differing: tuple[tuple[int, int], ...] = ()
    skipped: str = ""


class EndpointReader:
    """Sides of partitions of one cluster. Invariant: `_fetch_only` has brokers that were found not
    to know MirrorDigest."""

    def __init__(self, name: str, bus: BusSettings, names: TopicNames = SAME_NAMES) -> None:
        self._cluster = MirroredCluster(bus, CLIENT_ID, names)
        self._names = names
        self._clock = LoopClock()
        self._channels = ClusterChannels(name, bus, self._clock, CLIENT_ID)
        self._fetch_only: set[int] = set()
        self.view = ClusterView("", {}, {})

    async def open(self) -> None:
        """Ask brokers and topics. Raises BusError."""
        self.view = await asyncio.to_thread(self._cluster.view)
        self._channels.update(self.view.nodes)

    async def topics(self) -> dict[str, MirrorTopic]:
        """All topics with their configurations."""
        names = list(self.view.topics)
        return await asyncio.to_thread(self._cluster.with_configs, self.view, names)

    async def endpoint(self, topic: str, index: int, broker: int) -> ReplicaEndpoint:
        """One replica by digests, or the leader through Fetch. Raises EndpointError."""
        channel = self._channels.channel(broker, PURPOSE, pipelined=True)
        if broker not in self._fetch_only:
            name = self._names.at_target(topic)
            endpoint = DigestEndpoint(channel, name, index, self._clock.sleep)
            if await is_supported(endpoint):
                return endpoint
            self._fetch_only.add(broker)
        return self._fetch_endpoint(channel, topic, index)

    def leader_endpoint(self, topic: str, partition: PartitionDescription) -> FetchEndpoint:
        """The leader's records."""
        channel = self._channels.channel(partition.leader, PURPOSE, pipelined=True)
        return self._fetch_endpoint(channel, topic, partition.index)

    def _fetch_endpoint(self, channel: PeerChannel, topic: str, index: int) -> FetchEndpoint:
        topic_id = self.view.topics[topic].topic_id
        return FetchEndpoint(channel, self._names.at_target(topic), topic_id, index)

    def close(self) -> None:
        """Close the connections."""
        self._channels.close()
        self._cluster.close()


async def verify(
    settings: MirrorSettings, only: Sequence[str], block_offsets: int, *, replicas: bool = False
) -> list[PartitionComparison]:
    """Every mirrored partition, or those of the topics named, at its leader or at all `replicas`.
    Raises BusError."""
    source = EndpointReader("source", settings.source_bus)
    target = EndpointReader("target", settings.target_bus, settings.names)
    try:
        await asyncio.gather(source.open(), target.open())
        slots = asyncio.Semaphore(AT_ONCE)
        mirrored = [
            topic
            for name, topic in sorted((await target.topics()).items())
            if topic.configs.get(SOURCE_CLUSTER_KEY) == source.view.cluster_id
            and (not only or name in only)
        ]
        compared = await asyncio.gather(
            *(
                _compare(source, target, topic, ours, block_offsets, slots, replicas=replicas)
                for topic in mirrored
                for ours in target.view.topics[topic.name].partitions
            )
        )
        return [row for rows in compared for row in rows]
    finally:
        source.close()
        target.close()


async def _compare(
    source: EndpointReader,
    target: EndpointReader,
    mirrored: MirrorTopic,
    ours: PartitionDescription,
    block_offsets: int,
    slots: asyncio.Semaphore,
    *,
    replicas: bool,
) -> list[PartitionComparison]:
    topic = mirrored.name
    async with slots:
        at_source = source.view.topics.get(topic)
        partitions = at_source.partitions if at_source is not None else ()
        theirs = next((each for each in partitions if each.index == ours.index), None)
        if theirs is None:
            return [_skipped(topic, ours.index, -1, "the source does not have it")]
        if mirrored.is_compacted:
            return [await _compare_by_key(source, target, topic, theirs, ours)]
        rows: list[PartitionComparison] = []
        endpoints: dict[int, ReplicaEndpoint] = {}
        for broker in ours.replicas if replicas else (ours.leader,):
            try:
                endpoints[broker] = await target.endpoint(topic, ours.index, broker)
            except EndpointError as error:
                rows.append(_skipped(topic, ours.index, broker, str(error)))
        try:
            of_source = await source.endpoint(topic, ours.index, theirs.leader)
            rows += await compare_endpoints(topic, ours.index, of_source, endpoints, block_offsets)
        except EndpointError as error:
            rows += [_skipped(topic, ours.index, broker, str(error)) for broker in endpoints]
        return sorted(rows, key=lambda row: row.broker)


async def _compare_by_key(
    source: EndpointReader,
    target: EndpointReader,
    topic: str,
    theirs: PartitionDescription,
    ours: PartitionDescription,
) -> PartitionComparison:
    """The source rewrites batches of a compacted topic; the last value of each key stays."""
    try:
        found = await compare_keys(
            source.leader_endpoint(topic, theirs), target.leader_endpoint(topic, ours)
        )
    except EndpointError as error:
        return _skipped(topic, ours.index, ours.leader, str(error))
    first_one = found.differences[0] if found.differences else NOTHING
    return PartitionComparison(
        topic=topic,
        partition=ours.index,
        broker=ours.leader,
        first_offset=found.first,
        end_offset=found.end,
        keys=found.keys,
        size_bytes=found.size_bytes,
        differs_at=first_one.first_offset,
        detail=first_one.detail,
        differing=tuple((each.first_offset, each.end_offset) for each in found.differences),
    )


async def compare_endpoints(
    topic: str,
    index: int,
    source: ReplicaEndpoint,
    replicas: Mapping[int, ReplicaEndpoint],
    block_offsets: int,
) -> list[PartitionComparison]:
    """Over the offsets that all of them hold. Raises EndpointError."""
    held = [await endpoint.held() for endpoint in (source, *replicas.values())]
    first = max(one.start for one in held)
    end = max(min(one.end for one in held), first)
    found = {broker: ReplicaComparison(first) for broker in replicas}
    position, silent = first, ""
    while position < end and not silent:
        going = {broker: one for broker, one in replicas.items() if not found[broker].failure}
        stop = min((position // block_offsets + SLICE_BLOCKS) * block_offsets, end)
        comparison = BlockComparison(source, going, block_offsets)
        for broker, result in (await comparison.compare(position, stop)).items():
            _add(found[broker], result)
        position, silent = stop, comparison.source_failure
    return [_row(topic, index, broker, first, end, one, silent) for broker, one in found.items()]


def _add(whole: ReplicaComparison, part: ReplicaComparison) -> None:
    whole.reached, whole.failure = part.reached, part.failure
    whole.blocks += part.blocks
    whole.size_bytes += part.size_bytes
    whole.differences += part.differences


def _row(
    topic: str, index: int, broker: int, first: int, end: int, one: ReplicaComparison, silent: str
) -> PartitionComparison:
    differences = sorted(one.differences, key=lambda each: each.first_offset)
    first_one = differences[0] if differences else NOTHING
    return PartitionComparison(
        topic=topic,
        partition=index,
        broker=broker,
        first_offset=first,
        end_offset=end,
        blocks=one.blocks,
        size_bytes=one.size_bytes,
        differs_at=first_one.first_offset,
        detail=first_one.detail,
        differing=tuple((each.first_offset, each.end_offset) for each in differences),
        skipped=one.failure or silent,
    )


def _skipped(topic: str, partition: int, broker: int, reason: str) -> PartitionComparison:
    return PartitionComparison(topic=topic, partition=partition, broker=broker, skipped=reason)
