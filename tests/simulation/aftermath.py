"""What must be so when all faults are over: looked at from outside, as an operator would.

In: the cluster. Out: sentences about what is wrong, and the bytes of every replica for rule 12.
Never: a wait.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from bus.records.batch import RecordsError, iter_batches
from tests.checker.history import ReplicaState
from tests.simulation.cluster import Cluster
from tests.simulation.machine import Machine


def what_is_wrong(cluster: Cluster) -> list[str]:
    """Everything that is not as it should be; empty when the cluster is whole."""
    serving = cluster.serving()
    if len(serving) < len(cluster.machines):
        silent = [m.name for m in cluster.machines if m.broker is None]
        return [f"{', '.join(silent)} does not serve"]
    active = cluster.active_controllers()
    if len(active) != 1:
        return [f"{len(active)} active controllers: {[m.name for m, _ in active]}"]
    return [*_metadata(cluster, serving), *_replicas(cluster), *_directories(cluster, serving)]


def what_differs_at_rest(cluster: Cluster) -> list[str]:
    """Once nobody writes, every replica ends where its leader does, and every watermark is there.

    Rule 12 compares bytes below the watermarks: one that rests at 0 would be compared over nothing.
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


def is_in_sync(cluster: Cluster, machine: Machine) -> bool:
    """Whether the machine's broker serves and is in sync wherever it has a replica."""
    image = cluster.image() if machine.broker is not None else None
    return image is not None and all(
        machine.node_id in partition.isr
        for topic in image.topics.values()
        for partition in topic.partitions
        if machine.node_id in partition.replicas
    )


def _metadata(cluster: Cluster, serving: list[Any]) -> Iterator[str]:
    """All brokers have the same metadata, in which everything is in sync and led."""
    images = {machine.name: broker.rooms.services.image for machine, broker in serving}
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
    """What all brokers must know of topics, comparable."""
    return sorted(
        (
            topic.name, topic.topic_id, partition.index, partition.replicas, partition.leader,
            partition.leader_epoch, partition.partition_epoch, tuple(sorted(partition.isr)),
        )
        for topic in image.topics.values()
        for partition in topic.partitions
    )  # fmt: skip


def _replicas(cluster: Cluster) -> Iterator[str]:
    """Every replica that ought to be is there, and no other."""
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


def _directories(cluster: Cluster, serving: list[Any]) -> Iterator[str]:
    """Every log is there once, nothing moves any more, and the controller knows where it lies."""
    if len(cluster.log_dirs) == 1:
        return
    image = cluster.image()
    for machine, broker in serving:
        logs, moves = broker.rooms.logs, broker.rooms.replicas.moves
        if len(moves):
            yield f"{machine.name}: {len(moves)} replicas are on the move"
        for partition in broker.rooms.replicas.partitions():
            name = f"{partition.topic}-{partition.index}"
            homes = [d for d in cluster.log_dirs if machine.disk.dirs.get(f"{d}/{name}", 0) is None]
            if homes != [partition.log.directory.rpartition("/")[0]]:
                yield f"{machine.name}: {name} lies in {homes}, {partition.log.directory} is served"
            topic = image.topics.get(partition.topic)
            told = None if topic is None else topic.partitions[partition.index]
            if told is None or machine.node_id not in told.replicas:
                continue  # `_replicas` speaks of it
            here = told.replicas.index(machine.node_id)
            if told.directories and told.directories[here] != logs.directory_ids[homes[0]]:
                yield f"{machine.name}: {name} is elsewhere as the controller has it"


def replica_states(cluster: Cluster, at_ms: int) -> Iterator[ReplicaState]:
    """Every replica's batches, read from its files."""
    for machine, partition in cluster.partitions():
        yield ReplicaState(
            at_ms=at_ms,
            broker=machine.node_id,
            topic=partition.topic,
            partition=partition.index,
            log_start=partition.log.log_start_offset,
            high_watermark=partition.high_watermark,
            batches=list(_batches(machine, partition.log.directory)),
        )


def _batches(machine: Machine, directory: str) -> Iterator[tuple[int, int, int, str]]:
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
