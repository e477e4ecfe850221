"""What the watch needs from outside: `deploy` hands it in.

Never: an import of `alarm` or `deploy`; their classes fit these shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bus.notify.notice_plan import NoticePlan
from bus.notify.notifiers import Notifier
from monitor.ports import OpenAlarms, OpenRecords, ReadProcesses
from monitor.watch.judge import StageTopics


@dataclass(frozen=True, slots=True)
class WatchPorts:
    """Everything that is not the watch's own."""

    notifiers: Sequence[Notifier]
    plan: NoticePlan  # of these notifiers
    give_up_ms: int  # the greatest age of a notice
    open_records: OpenRecords
    open_alarms: OpenAlarms
    read_processes: ReadProcesses
    stages: Sequence[StageTopics]  # those whose positions the record store or a group holds
    dispatcher: StageTopics  # a consumer group
    recorder: StageTopics  # its positions are in the operations store
    edge_status_url: str  # where the edge tells of its spool; empty: there is no edge
    spool_max_bytes: int
    folders: Sequence[Path]  # whose disks are watched
