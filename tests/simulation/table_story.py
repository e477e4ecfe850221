"""The story of one seed with tables: a compacted topic is cleaned while everything else happens.

In: a seed, as for `story`. Out: its `Outcome`; besides the rules of every world those of `tables`,
for readers at any time, and in the end for every replica: the bytes may differ, what a key has at
last may not. Never: a change of the worlds without tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.checker.history import ReplicaStateEvent
from tests.simulation import workload
from tests.simulation.cluster import SimCluster
from tests.simulation.observer import EVERY_S
from tests.simulation.producer import LOST_ACKS, MOST_IN_FLIGHT, ProducerKind
from tests.simulation.story import READ_S, START_WITHIN_S, Outcome, SeedRun
from tests.simulation.tables import (
    Found,
    TableAuditor,
    TableJournal,
    TableWriter,
    fold,
)

TABLE = "table"
PARTITIONS = 2
RETENTION_S = 3.0
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "2500",
    "segment.ms": "3000",
    "min.cleanable.dirty.ratio": "0.05",
    "delete.retention.ms": str(int(RETENTION_S * 1000)),
    "file.delete.delay.ms": "500",
}
PROPERTIES = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "20000",
    "log.flush.offset.checkpoint.interval.ms": "1500",
}
OFFSETS = "__consumer_offsets"
Place = tuple[str, int]


class LateReplicas:
    """Which replicas of tables were out of sync for longer than tombstones are kept. While one is in
    sync nothing above its end is committed, and so cleaned.

    Invariant: `_absent` has since when a replica of a table is out of sync.
    """

    def __init__(self, cluster: SimCluster, journal: TableJournal, now_s: Callable[[], float]) -> None:
        self._cluster, self._journal, self._now_s = cluster, journal, now_s
        self._absent: dict[tuple[Place, int], float] = {}

    def check(self) -> None:
        """Whatever is behind a late replica now may have gone before it copies it."""
        leaders: dict[Place, Any] = {}
        for _, replica in self._cluster.partitions():
            place = (replica.topic, replica.index)
            known = leaders.get(place)
            is_newer = known is None or known.leader_epoch < replica.leader_epoch
            if replica.topic == TABLE and replica.is_leader and is_newer:
                leaders[place] = replica
        for place, leader in leaders.items():
            self._look_at(place, leader)

    def _look_at(self, place: Place, leader: Any) -> None:
        now_s, excused = self._now_s(), self._journal.may_be_back
        for node_id in {*leader.replicas, *leader.isr}:
            if node_id in leader.isr:
                self._absent.pop((place, node_id), None)
                continue
            since_s = self._absent.setdefault((place, node_id), now_s)
            if now_s - since_s > RETENTION_S - 2 * EVERY_S:
                excused[place] = max(excused.get(place, 0), leader.log.end_offset)


class TableRun(SeedRun):
    """One world with a table."""

    def __init__(self, seed: int, controller: str = "kraft", **more: object) -> None:
        dice = random.Random(f"{controller}-{seed}/workload")
        drawn = replace(workload.draw(dice, 3), compacted=False, cleaned=True)
        given = {"workload": drawn, "properties": PROPERTIES, **more}
        super().__init__(seed, controller, **given)  # type: ignore[arg-type]
        self.journal = TableJournal()
        self.places = [(TABLE, index) for index in range(PARTITIONS)]
        self.auditor: TableAuditor | None = None

    async def _begin(self) -> bool:
        if not await super()._begin():
            return False
        late = LateReplicas(self.cluster, self.journal, self.world.loop.time)
        self.observer.also.append(late.check)
        until = self.world.loop.time() + START_WITHIN_S
        copies = self.cluster.replication_factor
        admin = self._admin("table-founder")
        if not await admin.create_surely(TABLE, PARTITIONS, copies, CONFIG, until):
            self.world.complain("the table could not be made on a sound cluster")
            return False
        for number in range(2):
            name = f"table-writer{number}"
            around = self.world.client_surroundings(name, self.cluster.bootstrap)
            kind = ProducerKind(in_flight=MOST_IN_FLIGHT, lost_acks=LOST_ACKS)
            writer = TableWriter(name, around, kind, self.journal)
            self.producers.append(writer)
            around.clock.spawn(writer.run(self.places, 0.15), name=name)
        around = self.world.client_surroundings("table-auditor", self.cluster.bootstrap)
        self.auditor = TableAuditor("table-auditor", around, self.journal, RETENTION_S)
        self.consumers.append(self.auditor)
        around.clock.spawn(self.auditor.audit(self.places), name="table-auditor")
        return True

    async def _read_all(self) -> None:
        await super()._read_all()
        around = self.world.client_surroundings("table-last", self.cluster.bootstrap)
        last = TableAuditor("table-last", around, self.journal, READ_S)
        for place in self.places:
            if not await last.look_at(place, self.world.loop.time() + READ_S):
                self.world.complain(f"{place} cannot be read to its end")
        wrong = partial(what_differs, self.cluster, self.journal)
        for one in await self.world.until_none(wrong, READ_S):
            self.world.complain(one)

    def _is_compared(self, state: ReplicaStateEvent) -> bool:
        return state.topic not in (TABLE, OFFSETS)


def what_differs(cluster: SimCluster, journal: TableJournal) -> list[str]:
    """Between what the replicas of the tables have of each key at last, and what was written."""
    wrong: list[str] = []
    states: dict[tuple[str, int], dict[str, dict[str, Found]]] = {}
    for machine, replica in cluster.partitions():
        if replica.topic == TABLE:
            log = replica.log
            pieces = [one.read_bytes(0, one.size_bytes) for one in log.segments.all]
            found = fold(pieces, wrong)
            place = (replica.topic, replica.index)
            states.setdefault(place, {})[machine.name] = found
            known, end_offset = journal.acknowledged(place), log.end_offset
            for one in journal.what_is_wrong(place, found, known, end_offset):
                wrong.append(f"{machine.name}: {one}")
    for place, by_machine in states.items():
        unsure = journal.keys_that_may_be_back(place)
        values = [
            {key: one.number for key, one in found.items() if one.is_value and key not in unsure}
            for found in by_machine.values()
        ]
        if any(one != values[0] for one in values):
            wrong.append(f"{place}: the replicas have different values at last")
    return wrong


def run_table_seed(seed: int, controller: str = "kraft", **more: object) -> Outcome:
    """Runs the story of one seed."""
    return TableRun(seed, controller, **more).run()
