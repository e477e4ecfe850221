"""What must be true of two sites: of their logs, of what the mirror says, of who is primary.

In: both clusters as seen from outside, the mirror's own numbers. Out: sentences. Never: a wait.
"""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from broker.controller.decisions.site_epochs import site_epoch
from bus.contracts.diverged_ranges import decode_diverged_range
from bus.contracts.topics import CONTROL_MIRROR_TAILS
from bus.records.batch import iter_batches
from bus.records.read import read_records
from dr_mirror.switch.plan.diverged_records import diverged_parts
from tests.simulation.cluster import SimCluster
from tests.simulation.machine import SimMachine
from tests.simulation.mirror_machine import MirrorMachine

EVERY_S = 0.1
MADE_ANEW = "anew"
"""A topic that an operator deletes: what was called copied of it may go."""
EPOCH_FREE = 16
"""Where a batch's bytes begin that are the same at both sites: behind its leader epoch."""

Place = tuple[str, int]
Ends = dict[Place, int]
Batch = tuple[int, int, int]
"""First and last offset, a checksum of the bytes behind the leader epoch."""


def batches_of(machine: SimMachine, directory: str) -> list[Batch]:
    """All of a replica's files."""
    found = []
    for path in sorted(p for p in machine.disk.files if p.startswith(f"{directory}/")):
        if not path.endswith(".log"):
            continue
        data = bytes(machine.disk.files[path].data)
        for at, header in iter_batches(data):
            body = data[at + EPOCH_FREE : at + header.size_bytes]
            found.append((header.base_offset, header.last_offset, zlib.crc32(body)))
    return found


def log_ends(cluster: SimCluster, topics: Iterable[str]) -> Ends:
    """Where each leader's log ends."""
    return {
        (partition.topic, partition.index): partition.log.end_offset
        for _, partition in cluster.partitions()
        if partition.is_leader and partition.topic in topics
    }


def log_bounds(cluster: SimCluster, topic: str) -> dict[Place, tuple[int, int]]:
    """Where each leader's log of a topic begins and ends; a broker may have one of that name that
    is deleted."""
    image = cluster.image()
    wanted = image.topics.get(topic) if image is not None else None
    return {
        (topic, partition.index): (partition.log.log_start_offset, partition.log.end_offset)
        for _, partition in cluster.partitions()
        if partition.is_leader and wanted is not None and partition.topic_id == wanted.topic_id
    }


def held_offsets(cluster: SimCluster, topic: str) -> list[tuple[int, int]]:
    """Partitions and offsets of the records that each leader's log of a topic holds. A log has none
    where the source's begins later than the target's ended."""
    bounds = log_bounds(cluster, topic)
    found: set[tuple[int, int]] = set()
    for index, data in _segments_of_leaders(cluster, topic):
        start, end = bounds.get((topic, index), (0, 0))
        offsets = [one.offset for at, _ in iter_batches(data) for one in read_records(data, at)]
        found |= {(index, offset) for offset in offsets if start <= offset < end}
    return sorted(found)


def both_sites(one: SimCluster, other: SimCluster, topics: Mapping[str, int]) -> list[str]:
    """How the replicas of both differ, byte by byte from where the logs begin on."""
    replicas: dict[Place, dict[str, tuple[int, list[Batch]]]] = {}
    for cluster in (one, other):
        for machine, partition in cluster.partitions():
            if partition.topic in topics:
                place = partition.topic, partition.index
                start = partition.log.log_start_offset
                batches = batches_of(machine, partition.log.directory)
                held_from = start, [each for each in batches if each[1] >= start]
                replicas.setdefault(place, {})[machine.name] = held_from
    found = []
    for topic, count in topics.items():
        for index in range(count):
            held = replicas.get((topic, index), {})
            if len(held) < len(one.machines) + len(other.machines):
                found.append(f"{topic}-{index}: replicas on {sorted(held)} only")
            bounds = {
                name: (start, batches[-1][1] + 1 if batches else start)
                for name, (start, batches) in held.items()
            }
            if len({(start, tuple(batches)) for start, batches in held.values()}) > 1:
                found.append(f"{topic}-{index}: not the same everywhere, the logs are {bounds}")
    return found


def missing_values(cluster: SimCluster, topic: str, wanted: Iterable[str]) -> list[str]:
    """Values that no leader's log of a topic holds."""
    held: set[str] = set()
    for _, data in _segments_of_leaders(cluster, topic):
        held |= set(_values(data))
    missing = sorted(set(wanted) - held)
    return [f"{topic} lacks {len(missing)} records: {missing[:5]}"] if missing else []


def _segments_of_leaders(cluster: SimCluster, topic: str) -> Iterable[tuple[int, bytes]]:
    """The segments of each leader's log of a topic, in their order, by partition."""
    for machine, partition in cluster.partitions():
        if partition.topic == topic and partition.is_leader:
            for path in sorted(machine.disk.files):
                if path.startswith(f"{partition.log.directory}/") and path.endswith(".log"):
                    yield partition.index, bytes(machine.disk.files[path].data)


def _values(data: bytes) -> Iterable[str]:
    for at, header in iter_batches(data):
        if not header.is_control:
            for record in read_records(data, at):
                yield bytes(record.value or b"").decode()


def tail_values(path: str) -> list[str]:
    """The values in the file of a former primary's own records, a value as often as it was written;
    none where there is no file."""
    if not path:
        return []
    lines = Path(path).read_text("ascii").splitlines()
    return [base64.b64decode(json.loads(line)["raw"]).decode() for line in lines]


def tail_ids(path: str, epoch: int) -> set[str]:
    """The ids under which a store has the records of such a file."""
    if not path:
        return set()
    lines = Path(path).read_bytes().splitlines()
    return {record_id for part in diverged_parts(lines, epoch) for record_id in part.ids}


def published_tail_ids(cluster: SimCluster, epoch: int) -> set[str]:
    """Those that stand on the site's `control.mirror-tails`."""
    found: set[str] = set()
    for _, data in _segments_of_leaders(cluster, CONTROL_MIRROR_TAILS):
        for at, _ in iter_batches(data):
            parts = [decode_diverged_range(bytes(one.value or b"")) for one in read_records(data, at)]
            found |= {each for part in parts if part and part.epoch == epoch for each in part.ids}
    return found


class SiteClaims:
    """What the mirror calls copied, and whom the site epochs call primary.

    Invariant: `_newest` has the newest leader epoch that was seen of a partition; an older leader that
    does not know yet proves nothing.
    """

    def __init__(self, machine: MirrorMachine, clusters: tuple[SimCluster, SimCluster]) -> None:
        self._machine = machine
        self._clusters = clusters
        self._copied: dict[tuple[str, Place], int] = {}
        self._primaries: dict[int, str] = {}
        self._newest: dict[tuple[str, Place], int] = {}
        self._reported: set[tuple[str, Place]] = set()

    async def watch(self, complain: Callable[[str], None]) -> None:
        """Looks for ever."""
        while True:
            self._note_copied()
            self._look_at_leaders(complain)
            self._note_primaries(complain)
            await asyncio.sleep(EVERY_S)

    def _note_copied(self) -> None:
        mirror = self._machine.mirror
        if mirror is None:
            return
        target = mirror.clusters.target_cluster_id
        for (topic, index), end in mirror.copied.confirmed().items():
            key = target, (topic, index)
            self._copied[key] = max(end, self._copied.get(key, 0))

    def _note_primaries(self, complain: Callable[[str], None]) -> None:
        for cluster in self._clusters:
            for machine, broker in cluster.serving():
                epoch = site_epoch(broker.components.metadata.image)
                if epoch is None:
                    continue
                first = self._primaries.setdefault(epoch.number, epoch.primary)
                if first != epoch.primary:
                    complain(
                        f"two primaries in site epoch {epoch.number}: {first}, and {epoch.primary} "
                        f"at {machine.name}"
                    )

    def _look_at_leaders(self, complain: Callable[[str], None]) -> None:
        """What was called copied is in the log of the newest leader, whoever that is."""
        for cluster in self._clusters:
            target = cluster.common["cluster.id"]
            for machine, partition in cluster.partitions():
                key = target, (partition.topic, partition.index)
                newest = max(partition.leader_epoch, self._newest.get(key, 0))
                self._newest[key] = newest
                is_newest = partition.is_leader and partition.leader_epoch == newest
                if key not in self._copied or not is_newest or key in self._reported:
                    continue
                if partition.topic == MADE_ANEW:
                    continue
                if partition.log.end_offset < self._copied[key]:
                    self._reported.add(key)
                    complain(
                        f"{key[1]}: {self._copied[key]} offsets were called copied, leader "
                        f"{machine.name} has {partition.log.end_offset}"
                    )
