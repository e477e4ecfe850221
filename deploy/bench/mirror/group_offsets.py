"""How far before where it stood at the lost site a group goes on at the other one.

In: two clusters of ours, a group at the first that commits all the time. Out: seconds. Never: a
commit whose acknowledgement the group did not get: it does not know of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from bus.client.kafka.admin import Admin
from bus.client.model import TopicPartition
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.bench.mirror.bench_mirror import PARTITIONS, TOPIC
from deploy.bench.mirror.switching import running, switch
from deploy.errors import OperatorError

GROUP = "bench-readers"
COMMIT_S = 0.02
COMMITS_FOR_S = 10.0
Commits = Sequence[tuple[float, Mapping[TopicPartition, int]]]


class CommittingGroup:
    """A group that stands at the end of each partition and commits it, over and over."""

    def __init__(self, bootstrap: str) -> None:
        self.commits: list[tuple[float, Mapping[TopicPartition, int]]] = []
        """When each was acknowledged, by the monotonic clock, and what it was."""
        self._bus = BusSettings(bootstrap_servers=bootstrap)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Commit no more."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        places = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
        admin = Admin(self._bus, client_id="bench")
        try:
            while not self._stopping.wait(COMMIT_S):
                if not (ends := admin.end_offsets(places)):
                    return  # nobody leads them any more
                admin.set_committed(GROUP, ends)
                self.commits.append((time.monotonic(), ends))
        except BusError:
            return  # its cluster was killed
        finally:
            admin.close()


def behind_s() -> dict[str, float]:
    """By the partition that stands furthest behind."""
    with running() as (run, _, _):
        group = CommittingGroup(run.pair.source)
        try:
            time.sleep(COMMITS_FOR_S)
            run.pair.clusters[0].kill(1)
            killed_s = time.monotonic()
        finally:
            group.stop()
        switch(run, "--force")
        admin = Admin(BusSettings(bootstrap_servers=run.pair.target), client_id="bench")
        try:
            at_target = admin.committed(GROUP)
        finally:
            admin.close()
    if not group.commits or not at_target:
        raise OperatorError("the group has committed nothing, or nothing of it was copied")
    return {"group": behind_of(group.commits, at_target, killed_s)}


def behind_of(
    commits: Commits, at_target: Mapping[TopicPartition, int], killed_s: float
) -> float:
    """How long before `killed_s` the group had first passed what it has at the target. Pure."""
    passed = [
        at_s
        for at_s, offsets in commits
        if any(offset > at_target.get(place, 0) for place, offset in offsets.items())
    ]
    return max(killed_s - min(passed), 0.0) if passed else 0.0
