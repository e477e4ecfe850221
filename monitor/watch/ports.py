"""What the watch needs from outside: `deploy` hands it in.

Never: an import of `alarm` or `deploy`; their classes fit these shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bus.contracts.plate_lists import ListRecord
from bus.notify.notice_plan import NoticePlan
from bus.notify.notifiers import Notifier
from monitor.ports import OpenAlarms, OpenRecords, ReadProcesses
from monitor.watch.driver_pages import StageTopics
from monitor.watch.ending_certificates import CertificateEnd


class ListRecords(Protocol):
    """The lists of plates in force, for any thread."""

    def read(self) -> Sequence[ListRecord]:
        """May raise anything."""

    def close(self) -> None:
        """Ask no more."""


@dataclass(frozen=True, slots=True)
class WatchPorts:
    """Everything that is not the watch's own."""

    notifiers: Sequence[Notifier]
    plan: NoticePlan  # of these notifiers
    give_up_ms: Callable[[str], int]  # the greatest age of a notice, by notifier; 0: none
    open_records: OpenRecords
    open_alarms: OpenAlarms
    read_processes: ReadProcesses
    stages: Sequence[StageTopics]  # those whose positions the record store or a group holds
    groups: Sequence[StageTopics]  # consumer groups of the dispatchers
    recorder: StageTopics  # its positions are in the operations store
    edge_status_urls: Mapping[str, str]  # where each edge tells of its spool
    spool_max_bytes: int
    folders: Sequence[Path]  # whose disks are watched
    lists: ListRecords
    read_certificates: Callable[[], Sequence[CertificateEnd]]  # may raise anything
    mirror_url: str = ""  # where the mirror shows its status; empty: there is none
    page_token: str = ""  # what pages ask for, ours and those of our neighbours; empty: nothing

    @property
    def all_stages(self) -> list[StageTopics]:
        """The whole pipeline."""
        return [*self.stages, *self.groups, self.recorder]
