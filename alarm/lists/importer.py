"""Brings a file of plates or faces into force: its chunks onto `state.lists`, then one request that
names them.

In: a file, what is said of the list. Out: what the file changes, and, unless that was all that was
asked, the decider's answer; a report of what was refused. Never: a chunk before the whole file was
read; a request before all chunks are acknowledged. Whatever ends it in between leaves the version
before in force, and chunks that the site's recorder takes away.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from alarm.lists.columns import HEADED_ROWS
from alarm.lists.difference import NewLines
from alarm.lists.face_file import MAX_FACE_CSV_BYTES, named_model, read_faces
from alarm.lists.import_file import RefusedLine, TableRow, read_lines
from alarm.lists.list_file import MAX_CSV_BYTES, ListFileError, table_rows
from alarm.lists.lists_topic import read_lists
from alarm.lists.refused_report import RefusedReport
from alarm.lists.stored_lists import ListBase, StoredLists
from alarm.lists.wanted_model import WantedModel
from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.contracts.commands import CommandAnswer
from bus.contracts.feature_models import FeatureModel
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.plate_lists import (
    GALLERY_KIND,
    PLATE_LIST_KIND,
    FaceLine,
    ListCommand,
    ListLine,
    ListRecord,
    NamedChunk,
    base_key,
)
from bus.contracts.topics import STATE_LISTS, TOPICS
from bus.domain.list_check import check_text
from bus.domain.list_chunks import ChunkValue, base_chunks, face_chunks
from bus.domain.list_import import ListDifference, ListImport, ListText
from bus.settings import BusSettings

READ_S = 30.0
SEND_S = 120.0
PROGRESS_LINES = 20_000

Line = TypeVar("Line", ListLine, FaceLine)
OnProgress = Callable[[str, int], None]
"""What is done, and of how many lines so far."""


class ReadList(NamedTuple):
    """A file that was read to its end. `refused`: how many lines of each reason; `report`: where
    they stand, if there are any."""

    chunks: list[ChunkValue]
    lines: NewLines
    line_count: int
    refused: Counter[str]
    report: Path


class ListFile(NamedTuple):
    """A file and what is said of it. `wanted`: of the faces in it; None of a file of plates.
    `may_be_plates`: its headings tell whether faces stand in it."""

    path: Path
    report: Path
    text: ListText
    wanted: WantedModel | None = None
    may_be_plates: bool = False


class TriedFile(NamedTuple):
    """What a file would bring into force. `record`: what is in force; `command`: what asks for
    it."""

    read: ReadList
    record: ListRecord | None
    command: ListCommand
    outcome: ListImport


def read_list(
    rows: Iterable[TableRow], path: Path, report: Path, on_progress: OnProgress
) -> ReadList:
    """All rows of a file; nothing is sent. Raises `ListFileError`, and what `read_lines` does."""
    none = f"no line of {path} is taken", f"{path} has no line of a list"
    return _read(read_lines(rows), base_chunks, report, on_progress, *none)


def read_gallery(
    rows: Iterable[TableRow], model: FeatureModel, path: Path, report: Path, on_progress: OnProgress
) -> ReadList:
    """The same of a file of features. Raises `ListFileError`, and what `read_faces` does."""
    none = f"no face of {path} is taken", f"{path} has no face of a gallery"
    return _read(read_faces(rows, model), face_chunks, report, on_progress, *none)


def _read(
    found: Iterable[Line | RefusedLine],
    chunks_of: Callable[[Iterable[Line]], Iterator[ChunkValue]],
    report: Path,
    on_progress: OnProgress,
    none_taken: str,
    nothing_there: str,
) -> ReadList:
    lines = NewLines()
    with RefusedReport(report) as refused:
        chunks = list(chunks_of(_taken(found, lines, refused, on_progress)))
        counts = refused.counts
    if not chunks:
        raise ListFileError(f"{none_taken}: {report} says why" if counts else nothing_there)
    return ReadList(chunks, lines, len(lines), counts, report)


def _taken(
    found: Iterable[Line | RefusedLine],
    lines: NewLines,
    refused: RefusedReport,
    on_progress: OnProgress,
) -> Iterator[Line]:
    for number, line in enumerate(found, 1):
        if isinstance(line, RefusedLine):
            refused.add(line)
        else:
            lines.add(line)
            yield line
        if number % PROGRESS_LINES == 0:
            on_progress("read", number)


def put_command(
    list_id: str, record: ListRecord | None, text: ListText, difference: ListDifference,
    model: FeatureModel | None,
) -> ListCommand:
    """Puts the list, or changes it: what is not said stays as it is. `model`: of a gallery. Raises
    `CommandError`."""
    fields = {key: getattr(text, key) for key in text.__struct_fields__}
    kept = fields if record is None else {key: getattr(record, key) for key in fields}
    stated = {key: value for key, value in fields.items() if value is not None}
    usual = {key: value for key, value in kept.items() if value is not None}
    command = ListCommand(
        list_id=list_id, op="put", removed_lines=difference.removed,
        seen_version=0 if record is None else record.version,
        kind=PLATE_LIST_KIND if model is None else GALLERY_KIND, model=model,
        **{"name": list_id, **usual, **stated},
    )  # fmt: skip
    check_text(command)
    return command


def outcome_of(
    list_id: str, read: ReadList, difference: ListDifference, command: ListCommand
) -> ListImport:
    """What a file would change, before anything is asked for."""
    refused = sum(read.refused.values())
    return ListImport(
        list_id=list_id, lines=read.line_count, refused=refused,
        refused_reasons=dict(read.refused), report=str(read.report) if refused else "",
        difference=difference, seen_version=command.seen_version, model=command.model,
    )  # fmt: skip


class ListImporter:
    """Of one site. `close` it."""

    def __init__(self, bus: BusSettings, site: str, client_id: str) -> None:
        self._bus = bus
        self._site = site
        self._client_id = client_id
        self._commands = CommandClient(bus, site, client_id)

    def compare(self, list_id: str, read: ReadList) -> tuple[ListRecord | None, ListDifference]:
        """The list in force, and what the file changes of it; once for each reading. Raises
        `CatchUpTimeout`, `ListChunkError`, BusError."""
        with_base = self.in_force(list_id)
        if with_base is None:
            return None, read.lines.compared_with(())
        record, stored = with_base
        in_force = stored.faces(record) if record.is_gallery else stored.lines(record)
        return record, read.lines.compared_with(in_force)

    def try_file(self, list_id: str, file: ListFile, on_progress: OnProgress) -> TriedFile:
        """Read it whole, and compare it with what is in force; nothing is sent. Raises
        `CommandError` for what is said of it, and what reading a file and `compare` do."""
        read, model = self._read(list_id, file, on_progress)
        record, difference = self.compare(list_id, read)
        if model is not None and file.wanted is not None:
            model = file.wanted.with_threshold(model, record)
        command = put_command(list_id, record, file.text, difference, model)
        return TriedFile(read, record, command, outcome_of(list_id, read, difference, command))

    def _read(
        self, list_id: str, file: ListFile, on_progress: OnProgress
    ) -> tuple[ReadList, FeatureModel | None]:
        """What stands in it, and of which model it is."""
        wanted, path = file.wanted, file.path
        most = MAX_CSV_BYTES if wanted is None else MAX_FACE_CSV_BYTES
        if wanted is not None and wanted.name:
            wanted.known(wanted.name)  # before the file is looked at
        with closing(table_rows(path, most)) as source:
            head = list(islice(source, HEADED_ROWS + 1))
            rows, named = chain(head, source), named_model(head)
            if wanted is None or (file.may_be_plates and named is None):
                return read_list(rows, path, file.report, on_progress), None
            name = wanted.name or named
            model = wanted.known(name) if name else wanted.of_gallery(self._record(list_id))
            return read_gallery(rows, model, path, file.report, on_progress), model

    def _record(self, list_id: str) -> ListRecord | None:
        """Of what is in force."""
        return read_lists(self._bus, self._client_id, timeout_s=READ_S).in_force.get(list_id)

    def in_force(self, list_id: str) -> tuple[ListRecord, StoredLists] | None:
        """A list with all its lines. Raises `CatchUpTimeout`, BusError."""
        record = self._record(list_id)
        while record is not None:
            wanted = frozenset([ListBase(list_id, record.base)])
            stored = read_lists(self._bus, self._client_id, wanted, READ_S)
            newer = stored.in_force.get(list_id)
            if newer is None or newer.base == record.base:
                return None if newer is None else (newer, stored)
            record = newer  # somebody has put another base meanwhile
        return None

    def put(self, command: ListCommand, read: ReadList, on_progress: OnProgress) -> CommandAnswer:
        """The chunks, then the request; `command` says the rest of it. Raises BusError,
        `CommandNotAcknowledged`, `CommandUnanswered`."""
        base = new_base([one.named for one in read.chunks])
        values = (
            KeyedValue(base_key(command.list_id, base, one.named.number).encode(), one.value)
            for one in read.chunks
        )
        on_progress("send", read.line_count)
        send_all(
            self._bus, self._client_id, STATE_LISTS, values,
            headers=[(SCHEMA, TOPICS[STATE_LISTS].schema), (SITE, self._site)],
            timeout_s=SEND_S, what="chunks of the list",
        )  # fmt: skip
        on_progress("ask", read.line_count)
        chunks = tuple(one.named for one in read.chunks)
        return self.request(msgspec.structs.replace(command, base=base, chunks=chunks))

    def request(self, command: ListCommand) -> CommandAnswer:
        """Raises `CommandNotAcknowledged`, `CommandUnanswered`."""
        named = command.command_id or new_command_id()
        return self._commands.request(msgspec.structs.replace(command, command_id=named))

    def close(self) -> None:
        """End threads and connections."""
        self._commands.close()


def new_base(chunks: list[NamedChunk]) -> str:
    """A name that no base has had: where the same lines are put again, tombstones of the former
    chunks may still be on their way."""
    digest = hashlib.sha256(uuid.uuid4().bytes)
    for one in chunks:
        digest.update(one.sha256.encode())
    return digest.hexdigest()[:32]
