"""One look at a cluster as a frozen value (pure).

In: views of `bus.client.admin`. Out: `ClusterSnapshot`: brokers with roles and what they hold,
partitions that are not well. Never: a question to a cluster, a language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from bus.client.model import ClusterDescription, QuorumDescription, TopicDescription


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. `state`: alive, fenced (registered, may not lead), lost (was here, is gone)."""

    broker_id: int
    address: str
    rack: str
    state: str
    active_controller: bool
    voter: bool
    leads: int
    preferred: int
    replicas: int
    out_of_sync: int
    metadata_lag: int | None = None


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, as its leader and the controller tell it."""

    topic: str
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]

    @property
    def offline(self) -> bool:
        """It has no leader: producers and consumers stand still."""
        return self.leader < 0

    @property
    def missing(self) -> tuple[int, ...]:
        """Replicas that are not in sync."""
        return tuple(broker for broker in self.replicas if broker not in self.isr)


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one moment. `mode`: kraft or zookeeper. `controller_epoch` -1: unknown."""

    taken_at_ms: int
    cluster_id: str
    mode: str
    controller_id: int
    controller_epoch: int
    brokers: tuple[BrokerRow, ...]
    partitions: tuple[PartitionRow, ...]
    moving: int

    @property
    def under_replicated(self) -> int:
        """Partitions that miss replicas, the offline ones included."""
        return sum(1 for one in self.partitions if one.missing)

    @property
    def offline(self) -> int:
        """Partitions without a leader."""
        return sum(1 for one in self.partitions if one.offline)

    @property
    def not_preferred(self) -> int:
        """Partitions led by another than their first replica."""
        return sum(1 for one in self.partitions if one.replicas and one.leader != one.replicas[0])

    @property
    def alive(self) -> int:
        """Brokers that may lead."""
        return sum(1 for one in self.brokers if one.state == "alive")

    @property
    def unwell(self) -> list[PartitionRow]:
        """What an operator has to look at: offline first."""
        found = [one for one in self.partitions if one.offline or one.missing]
        return sorted(found, key=lambda one: (not one.offline, one.topic, one.index))


def build_snapshot(
    cluster: ClusterDescription,
    topics: Sequence[TopicDescription],
    quorum: QuorumDescription | None,
    *,
    now_ms: int,
    moving: int = 0,
    zookeeper_epoch: int = -1,
    before: ClusterSnapshot | None = None,
) -> ClusterSnapshot:
    """Everything of one look. A broker that is gone is `lost` while a partition names it, and in
    the first look after it went."""
    partitions = tuple(
        PartitionRow(
            topic=topic.name,
            index=one.index,
            leader=one.leader,
            leader_epoch=one.leader_epoch,
            replicas=one.replicas,
            isr=one.isr,
            elr=one.elr,
        )
        for topic in topics
        for one in topic.partitions
    )
    return ClusterSnapshot(
        taken_at_ms=now_ms,
        cluster_id=cluster.cluster_id,
        mode="kraft" if quorum is not None else "zookeeper",
        controller_id=cluster.controller_id if quorum is None else quorum.leader_id,
        controller_epoch=zookeeper_epoch if quorum is None else quorum.leader_epoch,
        brokers=_brokers(cluster, partitions, quorum, before),
        partitions=partitions,
        moving=moving,
    )


def _brokers(
    cluster: ClusterDescription,
    partitions: Sequence[PartitionRow],
    quorum: QuorumDescription | None,
    before: ClusterSnapshot | None,
) -> tuple[BrokerRow, ...]:
    counts = _counts(partitions)
    known = {one.broker_id: one for one in cluster.brokers}
    earlier = {one.broker_id: one for one in before.brokers} if before else {}
    recent = [one.broker_id for one in earlier.values() if one.state != "lost"]
    voters = {voter.node_id for voter in quorum.voters} if quorum else set()
    active = quorum.leader_id if quorum else cluster.controller_id
    lags = _lags(quorum)
    rows = []
    for broker_id in sorted({*known, *counts["replicas"], *recent}):
        now, was = known.get(broker_id), earlier.get(broker_id)
        state = "lost" if now is None else "fenced" if now.fenced else "alive"
        rows.append(
            BrokerRow(
                broker_id=broker_id,
                address=f"{now.host}:{now.port}" if now else was.address if was else "",
                rack=(now.rack if now else was.rack if was else "") or "",
                state=state,
                active_controller=broker_id == active,
                voter=broker_id in voters,
                leads=counts["leads"][broker_id],
                preferred=counts["preferred"][broker_id],
                replicas=counts["replicas"][broker_id],
                out_of_sync=counts["missing"][broker_id],
                metadata_lag=lags.get(broker_id),
            )
        )
    return tuple(rows)


def _counts(partitions: Sequence[PartitionRow]) -> Mapping[str, Counter[int]]:
    counts: dict[str, Counter[int]] = {
        word: Counter() for word in ("leads", "preferred", "replicas", "missing")
    }
    for one in partitions:
        counts["leads"].update([one.leader] if one.leader >= 0 else ())
        counts["preferred"].update(one.replicas[:1])
        counts["replicas"].update(one.replicas)
        counts["missing"].update(one.missing)
    return counts


def _lags(quorum: QuorumDescription | None) -> dict[int, int]:
    """Metadata records each node is behind the newest voter."""
    if quorum is None or not quorum.voters:
        return {}
    newest = max(voter.end_offset for voter in quorum.voters)
    return {
        one.node_id: max(0, newest - one.end_offset) for one in (*quorum.voters, *quorum.observers)
    }
