"""Waits for moves and shows their progress until they are done or Ctrl-C.

In: a cluster and the partitions that move. Out: a progress bar on a terminal, nothing on a pipe.
Never: a change; leaving (Ctrl-C) leaves the moves running.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from bus.cli.show import screen, size_text
from bus.client.admin import queries
from bus.client.admin.progress import DirectoryMove, MoveProgress, progress, within_brokers
from bus.client.model import LogDirDescription, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError

POLL_S = 1.0
"""Between two looks; a move takes minutes, and each look asks every broker for its disks."""


def show_progress(
    cluster: SyncClient, places: set[TopicPartition], brokers: Iterable[int] = ()
) -> bool:
    """Until none of these moves any more (True), or Ctrl-C (False). `brokers`: those of which
    replicas may move between log directories."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True),
               TransferSpeedColumn())  # fmt: skip
    with Progress(*columns, console=screen(), transient=True) as bar:
        task = bar.add_task("begins")
        total = 0
        try:
            while True:
                moves: list[MoveProgress | DirectoryMove] = [
                    *moves_between_brokers(cluster), *moves_within_brokers(cluster, brokers)
                ]  # fmt: skip
                rows = [row for row in moves if row.topic_partition in places]
                if not rows:
                    return True
                left = sum(row.total_bytes - row.copied_bytes for row in rows)
                total = max(total, left)
                word = f"{len(rows)} partitions move"
                bar.update(task, total=total, completed=total - left, description=word)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            bar.console.print("the moves go on; `databus reassign verify` says how they stand")
            return False


def moves_between_brokers(cluster: SyncClient) -> list[MoveProgress]:
    """Every move there is; a broker that does not answer counts as nothing copied."""
    moving = queries.reassignments(cluster)
    brokers = {broker for move in moving.values() for broker in move.replicas}
    return progress(moving, _dirs(cluster, brokers))


def moves_within_brokers(cluster: SyncClient, brokers: Iterable[int]) -> list[DirectoryMove]:
    """Every move between log directories of these brokers."""
    return within_brokers(_dirs(cluster, brokers))


def _dirs(cluster: SyncClient, brokers: Iterable[int]) -> dict[int, list[LogDirDescription]]:
    dirs = {}
    for broker in sorted(brokers):
        try:
            dirs[broker] = queries.log_dirs(cluster, broker)
        except BusError:
            dirs[broker] = []
    return dirs


def moving_rows(cluster: SyncClient) -> list[dict[str, object]]:
    """As a table shows them; a move within a broker names its directories."""
    rows: list[dict[str, Any]] = [
        {
            "partition": f"{row.topic_partition[0]}-{row.topic_partition[1]}",
            "adding": row.adding,
            "removing": row.removing,
            "copied": size_text(row.copied_bytes),
            "of": size_text(row.total_bytes),
            "copied_bytes": row.copied_bytes,
            "total_bytes": row.total_bytes,
        }
        for row in moves_between_brokers(cluster)
    ]
    brokers = [broker.broker_id for broker in queries.cluster(cluster).alive]
    return rows + [
        {
            "partition": f"{row.topic_partition[0]}-{row.topic_partition[1]}",
            "adding": [f"{row.broker}:{row.target}"],
            "removing": [f"{row.broker}:{row.source}"],
            "copied": size_text(row.copied_bytes),
            "of": size_text(row.total_bytes),
            "copied_bytes": row.copied_bytes,
            "total_bytes": row.total_bytes,
        }
        for row in moves_within_brokers(cluster, brokers)
    ]
