"""`faces`: stored faces that resemble the one of a record, or of a gallery's entry.

In: words, the composed settings in `ctx.obj`. Out: a table, or JSON, best first. Never: an answer
before the question is kept; more than so many records looked at.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from alarm.face_search import face_piece
from alarm.lists.base_tables import tables_folder
from alarm.lists.lists_topic import CatchUpTimeout
from alarm.lists.stored_list_reader import StoredListReader
from alarm.lists.table_layout import TableError
from alarm.shell_asker import CaseOption, ReasonOption
from bus.cli.show import AsJson, print_json, screen
from bus.contracts.feature_models import FeatureModel
from bus.domain.command_error import CommandError
from bus.domain.face_search import BestFaces, FaceQuestion, check_subject, face_in
from bus.domain.feature_models import with_threshold
from bus.errors import BusError
from deploy.open_stores import open_records
from deploy.product.shell_question import note_question
from deploy.settings.composed import Settings
from ingest.store.port import PageRequest, Query, RecordReader, RecordRow, StoreError
from monitor.api.views import clock, parse_time

_MOST_HELP = "Stop after so many face records were looked at, newest first."


def mount(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("faces")(faces)


def faces(
    ctx: typer.Context,
    record: Annotated[str, typer.Option(help="A face record's id, from `records --json`.")] = "",
    gallery: Annotated[str, typer.Option("--list", help="Or a gallery in force,")] = "",
    entry: Annotated[str, typer.Option(help="and its entry.")] = "",
    since: Annotated[
        str, typer.Option("--from", help="Captured since, in the site's time: 2026-11-29T08:00.")
    ] = "",
    until: Annotated[str, typer.Option(help="Captured before.")] = "",
    threshold: Annotated[
        float | None, typer.Option(help="Of a hit; else that of the gallery, or of the model.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many hits.")] = 20,
    most: Annotated[int, typer.Option(min=1, help=_MOST_HELP)] = 1_000_000,
    reason: ReasonOption = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Stored faces that resemble one, best first, with their scores. Ctrl-C stops it."""
    try:
        check_subject(record, gallery, entry)
    except CommandError as error:
        raise typer.BadParameter("give either --record, or --list and --entry") from error
    settings: Settings = ctx.obj
    from_ms, until_ms = _moment(since, "--from", settings), _moment(until, "--until", settings)
    said = {"record": record, "gallery": gallery, "entry": entry, "from": since, "until": until}
    note_question(
        ctx, "faces", {name: text for name, text in said.items() if text}, reason, case
    )
    try:
        with closing(open_records(settings)) as reader:
            feature, model = _face(settings, reader, record, gallery, entry)
            model = with_threshold(model, threshold)
            asked = FaceQuestion(
                feature=feature, model=model, from_ms=from_ms, until_ms=until_ms, record_id=record
            )
            found: BestFaces[RecordRow] = BestFaces(model, limit)
            is_complete = _compare(reader, asked, most, found)
    except CommandError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{error.field}") from error
    except (StoreError, CatchUpTimeout, BusError, TableError) as error:
        typer.echo(f"databus: no faces can be looked for: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        _progress(None)
    if as_json:
        print_json(_as_json(found, model, is_complete=is_complete))
    else:
        _show(found, model, settings, is_complete=is_complete)


def _face(
    settings: Settings, reader: RecordReader, record: str, gallery: str, entry: str
) -> tuple[bytes, FeatureModel]:
    """Raises `CommandError`, `StoreError`, and what reading lists does."""
    if record:
        rows, _ = reader.query(Query(record_id=record), PageRequest(limit=1))
        if not rows:
            raise CommandError("record", "no such record is stored", "not_found")
        return face_in(rows[0].body, settings.features.table())
    with closing(StoredListReader(settings.bus, tables_folder(settings.site))) as lists:
        found = lists.face(gallery, entry)
    if found is None:
        raise CommandError(
            "entry", f"no entry {entry} in a gallery {gallery} in force; see: databus lists show",
            "not_found",
        )  # fmt: skip
    return found


def _compare(
    reader: RecordReader, asked: FaceQuestion, most: int, found: BestFaces[RecordRow]
) -> bool:
    """Whether all was looked at: neither stopped nor more than `most`. Raises `StoreError`."""
    try:
        while found.read < most:
            piece = face_piece(reader, asked)
            found.add(piece)
            _progress(found)
            if not piece.cursor:
                return True
            asked = msgspec.structs.replace(asked, cursor=piece.cursor)
    except KeyboardInterrupt:
        pass
    return False


def _moment(text: str, option: str, settings: Settings) -> int:
    try:
        return parse_time(text, settings.site.tz)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _progress(found: BestFaces[RecordRow] | None) -> None:
    """A line that is written over and gone at the end; nothing where nobody looks."""
    if sys.stderr.isatty():
        text = f"{found.read:,} records looked at, {found.count:,} found" if found else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _as_json(
    found: BestFaces[RecordRow], model: FeatureModel, *, is_complete: bool
) -> dict[str, object]:
    return {
        "model": msgspec.to_builtins(model),
        "faces": [
            {
                "record_id": row.record_id, "score": score, "captured_at_ms": row.captured_at_ms,
                "checkpoint_id": row.checkpoint_id, "camera_ip": row.camera_ip,
                "picture_url": row.picture_url,
            }
            for row, score in found.hits
        ],
        "hits": found.count, "read": found.read, "compared": found.compared,
        "searched_from_ms": found.since_ms, "is_complete": is_complete,
    }  # fmt: skip


def _show(
    found: BestFaces[RecordRow], model: FeatureModel, settings: Settings, *, is_complete: bool
) -> None:
    zone = settings.site.tz
    table = Table("score", "captured", "checkpoint", "device", "record")
    for row, score in found.hits:
        table.add_row(
            f"{score:.3f}", clock(row.captured_at_ms, zone)[:19], row.checkpoint_id, row.camera_ip,
            row.record_id,
        )  # fmt: skip
    screen().print(table if found.hits else "no face resembles it")
    typer.echo(
        f"{found.count:,} found by {model.name} ({model.measure}, threshold {model.threshold:g});"
        f" {found.read:,} face records looked at, {found.compared:,} of them of this model"
    )
    if not is_complete:
        since = clock(found.since_ms, zone)[:19] or "nothing"
        typer.echo(f"stopped before all were looked at: back to {since}")
