"""The conditions that must hold when all faults are over, as an operator would check them.

In: the cluster. Out: sentences about what is wrong, and the bytes of every replica for rule 12.
Never: a wait.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from bus.records.batch import RecordsError, iter_batches
from tests.checker.history import ReplicaStateEvent
from tests.simulation.cluster import SimCluster
from tests.simulation.machine import SimMachine


def what_is_wrong(cluster: SimCluster) -> list[str]:
    """All violations; empty when the cluster is healthy."""
    serving = cluster.serving()
    if len(serving) < len(cluster.machines):
        silent = [m.name for m in cluster.machines if m.broker is None]
        return [f"{', '.join(silent)} does not serve"]
    active = cluster.active_controllers()
    if len(active) != 1:
        return [f"{len(active)} active controllers: {[m.name for m, _ in active]}"]
    return [*_metadata(cluster, serving), *_replicas(cluster), *_directories(cluster, serving)]


def what_differs_at_rest(cluster: SimCluster) -> list[str]:
    """Once writes have stopped, every log and every watermark must reach the leader's log end.

    Rule 12 compares bytes below the watermarks: with a watermark of 0 it would compare nothing.
    """
    ends: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    for machine, partition in cluster.partitions():
        rests = (partition.log.end_offset, partition.high_watermark)
        ends.setdefault((partition.topic, partition.index), {})[machine.node_id] = rests
    return [
        f"{topic}-{index}: end and watermark by broker are {by_broker}"
        for (topic, index), by_broker in sorted(ends.items())
        if len({place for both in by_broker.values() for place in both}) > 1
    ]


def is_in_sync(cluster: SimCluster, machine: SimMachine) -> bool:
    """Whether the machine's broker serves and is in sync for all its replicas."""
    image = cluster.image() if machine.broker is not None else None
    return image is not None and all(
        machine.node_id in partition.isr
        for topic in image.topics.values()
        for partition in topic.partitions
        if machine.node_id in partition.replicas
    )


def _metadata(cluster: SimCluster, serving: list[Any]) -> Iterator[str]:
    """Checks that all brokers have the same metadata, with a leader and all replicas in sync."""
    images = {machine.name: broker.components.metadata.image for machine, broker in serving}
    topics = {name: describe_topics(image) for name, image in images.items()}
    first = next(iter(topics))
    for name in topics:
        if topics[name] != topics[first]:
            yield f"{first} and {name} know different metadata"
    for node_id, broker in sorted(images[first].brokers.items()):
        if broker.fenced:
            yield f"broker {node_id} is fenced"
    for topic in images[first].topics.values():
        for partition in topic.partitions:
            where = f"{topic.name}-{partition.index}"
            if partition.leader < 0:
                yield f"{where} has no leader"
            elif set(partition.isr) != set(partition.replicas):
                yield f"{where}: in sync are {partition.isr} of {partition.replicas}"
            elif partition.adding_replicas or partition.removing_replicas:
                yield f"{where} is still being moved"


def describe_topics(image: Any) -> list[tuple[Any, ...]]:
    """A broker's knowledge of topics in comparable form; it must be the same for all."""
    return sorted(
        (
            topic.name, topic.topic_id, partition.index, partition.replicas, partition.leader,
            partition.leader_epoch, partition.partition_epoch, tuple(sorted(partition.isr)),
        )
        for topic in image.topics.values()
        for partition in topic.partitions
    )  # fmt: skip


def _replicas(cluster: SimCluster) -> Iterator[str]:
    """Checks that exactly the assigned replicas exist."""
    found: dict[tuple[str, int], set[int]] = {}
    for machine, partition in cluster.partitions():
        found.setdefault((partition.topic, partition.index), set()).add(machine.node_id)
    image = cluster.image()
    for topic in image.topics.values():
        for partition in topic.partitions:
            here = found.get((topic.name, partition.index), set())
            missing = sorted(set(partition.replicas) - here)
            strays = sorted(here - set(partition.replicas))
            if missing or strays:
                yield f"{topic.name}-{partition.index}: missing on {missing}, left on {strays}"


def _directories(cluster: SimCluster, serving: list[Any]) -> Iterator[str]:
    """Checks that every log exists once, no move is left, and the controller knows its
    directory."""
    if len(cluster.log_dirs) == 1:
        return
    image = cluster.image()
    for machine, broker in serving:
        logs, moves = broker.components.logs, broker.components.replicas.log_dir_mover
        if len(moves):
            yield f"{machine.name}: {len(moves)} replicas are on the move"
        for partition in broker.components.replicas.partitions():
            name = f"{partition.topic}-{partition.index}"
            homes = [d for d in cluster.log_dirs if machine.disk.dirs.get(f"{d}/{name}", 0) is None]
            if homes != [partition.log.directory.rpartition("/")[0]]:
                yield f"{machine.name}: {name} lies in {homes}, {partition.log.directory} is served"
            topic = image.topics.get(partition.topic)
            known = None if topic is None else topic.partitions[partition.index]
            if known is None or machine.node_id not in known.replicas:
                continue  # `_replicas` reports it
            here = known.replicas.index(machine.node_id)
            if known.directories and known.directories[here] != logs.directory_ids[homes[0]]:
                yield f"{machine.name}: {name} is elsewhere as the controller has it"


def replica_states(cluster: SimCluster, at_ms: int) -> Iterator[ReplicaStateEvent]:
    """Every replica's batches, read from its files."""
    for machine, partition in cluster.partitions():
        yield ReplicaStateEvent(
            at_ms=at_ms,
            broker=machine.node_id,
            topic=partition.topic,
            partition=partition.index,
            log_start=partition.log.log_start_offset,
            high_watermark=partition.high_watermark,
            batches=list(_batches(machine, partition.log.directory)),
        )


def _batches(machine: SimMachine, directory: str) -> Iterator[tuple[int, int, int, str]]:
    root = f"{directory}/"
    files = machine.disk.files
    for path in sorted(p for p in files if p.startswith(root) and p.endswith(".log")):
        data = bytes(files[path].data)
        try:
            for at, header in iter_batches(data):
                digest = f"{zlib.crc32(data[at : at + header.size_bytes]):08x}"
                yield header.base_offset, header.last_offset, header.partition_leader_epoch, digest
        except RecordsError as error:
            machine.world.complain(f"{machine.name}: {path} is damaged: {error}")
