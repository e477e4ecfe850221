"""What the console needs from outside: readers that `deploy` hands in.

In: questions. Out: contract structs, the state of processes. Never: an import of `alarm`; its
reader fits `AlarmReader` by shape, its matching is a function (`PreviewRule`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bus.contracts.alarm_states import AlarmState, RuleVerdicts
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.commands import WatchCommand
from bus.contracts.feature_models import FeatureModel
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import FaceLine, ListLine
from bus.domain.face_search import FacePiece, FaceQuestion
from bus.domain.list_import import ListImport, ListUpload
from bus.domain.list_in_force import ListInForce
from bus.domain.registered_places import RegisteredPlaces
from bus.domain.rule_preview import PreviewPiece, PreviewRequest
from bus.domain.visibility import Viewer
from ingest.store.port import PageRequest, Position, RecordReader, RecordRow


class AlarmReader(Protocol):
    """The read side of the operations store (alarms and incidents). Called from several threads?
    No:
    one reader per thread. Any exception means: away, open a new one later."""

    def alarms(
        self,
        *,
        page: PageRequest,
        viewer: Viewer,
        severity: str = "",
        rule_id: str = "",
        plate: str = "",
        checkpoint_id: str = "",
        raised_from_ms: int = 0,
        raised_until_ms: int = 0,
        stage: str = "",
        owner: str = "",
        changed_from_ms: int = 0,
        kind: str = "",
        district_id: str = "",
        only_concerning: bool = False,
        case: str = "",
        case_target: str = "",
    ) -> tuple[Sequence[Alarm], str]:
        """Alarms that `viewer` sees, newest first, and the cursor of the next page (empty at the
        end)."""

    def alarm(self, alarm_id: str, *, viewer: Viewer) -> Alarm | None:
        """One alarm; None also of one that `viewer` does not see."""

    def alarm_states(self, alarm_ids: Sequence[str]) -> dict[str, AlarmState]:
        """Of those of a page that somebody has acted on."""

    def verdicts(self) -> Sequence[RuleVerdicts]:
        """Of each rule whose alarms somebody has judged."""

    def incidents(
        self, *, page: PageRequest, open_only: bool = False
    ) -> tuple[Sequence[Incident], str]:
        """Incidents, newest first, and the cursor of the next page (empty at the end)."""

    def positions(self, application: str) -> Sequence[Position]:
        """How far an application of the operations store has come."""

    def close(self) -> None:
        """Release the store."""


class PlateListReader(Protocol):
    """The lists of plates and galleries of faces. One reader per thread. Any exception means: away,
    open a new one."""

    def lists(self, now_ms: int) -> Sequence[ListInForce]:
        """All in force, by id."""

    def proposals(self, now_ms: int) -> Sequence[ListProposal]:
        """What waits for an approval, oldest first."""

    def lines(
        self, list_id: str, begin: int, count: int
    ) -> tuple[Sequence[ListLine | FaceLine], int] | None:
        """Lines from a place on, and the place behind them; 0 at the end. None of a list that is
        not in force."""

    def lines_like(self, list_id: str, plate: str) -> Sequence[ListLine | FaceLine] | None:
        """Those that mean a plate, as tolerant as the list is; of a gallery the face of this entry.
        None as above."""

    def face(self, list_id: str, entry: str) -> tuple[bytes, FeatureModel] | None:
        """The feature of an entry of a gallery, and its model with the gallery's threshold. None of
        an entry, or a gallery, that is not in force."""

    def close(self) -> None:
        """Leave the bus."""


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the product, as its supervisor says; `state` is the supervisor's own word."""

    role: str
    state: str
    pid: int | None = None
    restarts: int = 0
    since_ms: int | None = None  # when it came into this state
    last_exit: int | None = None  # of the process before: its status, or the signal below zero


# Reads files; empty where no supervisor of ours keeps the processes (systemd, containers).
ReadProcesses = Callable[[], Sequence[ProcessStatus]]
# Why the watch is not known to live; empty while it does, or where none belongs to this console.
ReadWatch = Callable[[], str]
# The newest incidents of the watch's own file. Any exception means: they cannot be read just now.
ReadIncidents = Callable[[], Sequence[Incident]]
# A picture by its name: bytes and headers, None where there is none. Raises `OSError`, `ValueError`
# while the store of pictures is away.
ReadPicture = Callable[[str], tuple[bytes, dict[str, str]] | None]
# A piece of what a rule would have hit. Raises `InvalidWindow`, `InvalidCursor`, `StoreError`.
PreviewRule = Callable[
    [RecordReader, WatchCommand, PreviewRequest, RegisteredPlaces], PreviewPiece
]
# A piece of the stored faces that resemble one. Raises `InvalidCursor`, `StoreError`.
FindFaces = Callable[[RecordReader, FaceQuestion], FacePiece[RecordRow]]
OpenRecords = Callable[[], RecordReader]
OpenAlarms = Callable[[], AlarmReader]
OpenLists = Callable[[], PlateListReader]
ImportList = Callable[[ListUpload], ListImport]
"""Raises `CommandError`, and what sending a command does."""
