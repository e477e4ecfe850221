"""Runs the cluster's figures, one side after the other, so that each has the machine alone.

In: names of figures, how often, how large. Out: samples so far after every run. Never: a figure
that one side could not reach passed over: it is said, and the other side's stands alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from deploy.bench.cluster import faults, hostile, metadata, throughput
from deploy.bench.cluster.size import Size
from deploy.bench.cluster.targets import ClusterTarget, kafka_cluster, our_cluster
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.cluster.layout import ControllerKind
from deploy.errors import OperatorError

Group = Callable[[ClusterTarget, Sequence[str], Size], Iterator[tuple[str, float]]]
Start = Callable[[Path], AbstractContextManager[ClusterTarget]]


def _one(name: str, work: Callable[[ClusterTarget, Size], float]) -> Group:
    """A figure that needs a cluster of its own."""

    def group(
        target: ClusterTarget, names: Sequence[str], size: Size
    ) -> Iterator[tuple[str, float]]:
        yield name, work(target, size)

    return group


# What one cluster is used for: a fault or ten thousand partitions would spoil the next figure.
GROUPS: tuple[tuple[tuple[str, ...], Group], ...] = (
    (throughput.NAMES, throughput.measure),
    (faults.GAPS, faults.gaps),
    ((faults.CONTROLLER,), _one(faults.CONTROLLER, faults.controller)),
    ((metadata.CREATE,), _one(metadata.CREATE, metadata.create_many)),
    (metadata.ANSWER_NAMES, metadata.answers),
    ((faults.RESTART,), _one(faults.RESTART, faults.restart)),
    (hostile.UNREAD, hostile.unread),
    (hostile.FLOOD, hostile.flood),
)
NAMES = tuple(name for names, _ in GROUPS for name in names)
PREFIX = "cluster-"


def chosen(only: str) -> list[str]:
    """`single,batches,ack` as names of figures; a part of a name takes all that begin with it."""
    wanted: list[str] = []
    for word in filter(None, (part.strip() for part in only.split(","))):
        found = [name for name in NAMES if name.removeprefix(PREFIX).startswith(word)]
        if not found:
            known = ", ".join(name.removeprefix(PREFIX) for name in NAMES)
            raise OperatorError(f"there is no figure of the cluster '{word}'; known: {known}")
        wanted += found
    return [name for name in NAMES if name in wanted] if only else list(NAMES)


def measure(
    names: Sequence[str], repeat: int, size: Size, controller: ControllerKind, say: Say
) -> Iterator[Samples]:
    """Group by group, so that what is measured can be kept even if a later one fails."""

    def ours(folder: Path) -> AbstractContextManager[ClusterTarget]:
        return our_cluster(folder, controller)

    for group_names, group in GROUPS:
        wanted = [name for name in group_names if name in names]
        recorder = SampleRecorder(wanted, repeat, say)
        for _ in range(repeat if wanted else 0):
            for start in (ours, kafka_cluster):
                work = partial(_measure_cluster, start, group, wanted, size, recorder, say)
                attempt(", ".join(wanted), work, say)
            yield from recorder.samples()


def _measure_cluster(
    start: Start, group: Group, names: Sequence[str], size: Size, recorder: SampleRecorder, say: Say
) -> None:
    """One cluster in a fresh folder."""
    with (
        tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as folder,
        start(Path(folder)) as target,
    ):
        say(f"{target.name}: {', '.join(names)}")
        for name, value in group(target, names, size):
            recorder.add(name, value, of=target.name, is_kafka=start is kafka_cluster)
