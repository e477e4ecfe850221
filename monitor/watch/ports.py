"""What the watch needs from outside: `deploy` hands it in.

Never: an import of `alarm` or `deploy`; their classes fit these shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from monitor.ports import OpenAlarms, OpenRecords, ReadProcesses
from monitor.watch.judge import StageTopics


class IncidentNotifier(Protocol):
    """One way to notify people; it tries once and waits no longer than its own bound. Any exception
    means: not sent, try again."""

    name: str

    async def send(self, subject: str, body: bytes) -> None:
        """Send once. `subject` is the once-only key, the same at every retry."""

    async def close(self) -> None:
        """Release what it holds."""


@dataclass(frozen=True, slots=True)
class WatchPorts:
    """Everything that is not the watch's own."""

    notifiers: Sequence[IncidentNotifier]
    open_records: OpenRecords
    open_alarms: OpenAlarms
    read_processes: ReadProcesses
    stages: Sequence[StageTopics]  # those whose positions the record store or a group holds
    dispatcher: StageTopics  # a consumer group
    recorder: StageTopics  # its positions are in the operations store
    edge_status_url: str  # where the edge tells of its spool; empty: there is no edge
    spool_max_bytes: int
    folders: Sequence[Path]  # whose disks are watched
