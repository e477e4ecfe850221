"""The commands on records, rejected ones, messages and HBase's tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bus.cli.show import AsJsonLines, screen
from bus.confusion_file import source_of
from bus.domain.kinds import KINDS
from bus.domain.registered_places import RegisteredPlaces
from bus.domain.searched_area import AreaFault, SearchedArea, read_area, searched_area
from bus.domain.times import BadTime, local_time
from bus.domain.tolerant_search import (
    SEARCH_TOLERANCES,
    NotOnePlate,
    SearchTolerance,
    tolerant_plate,
)
from bus.runtime import wall_clock
from ingest.edge.batch_parser import JSON_TYPES, LINES_TYPES, split
from ingest.normalise import clock_limits
from ingest.normalise.diagnostics import Diagnostic, explain, guess_kind, reason_texts
from ingest.store.hbase.tables import REGIONS
from ingest.store.open import hbase_statements, open_store
from ingest.store.port import (
    PageRequest,
    Query,
    RecordReader,
    RecordRow,
    RejectedRow,
    StoreError,
)

if TYPE_CHECKING:
    from ingest.pictures.store import PictureStore

PAGE_ROWS = 500
_LISTED_BYTES = 80  # of a rejected record's bytes in the table
_PLATE_HELP = "A plate; * stands for any characters, ? for one; *A23* contains A23."
_AREA_HELP = "Where: longitude and latitude of each corner, 120.15 30.25, 120.17 30.25, …"
_REGISTER_READ_S = 10.0
_TOLERANCE_HELP = "Of a whole plate: 'distance 1' or misread; ~ before a plate is misread, too."

Limit = Annotated[int, typer.Option(min=1, help="At most so many, newest first.")]


def mount(app: typer.Typer) -> None:
    """Add the commands on what is stored and on messages."""
    app.command("records")(records)
    app.command("rejected")(rejected)
    app.command("check-message")(check_message)
    app.command("hbase-tables")(hbase_tables)


def records(
    ctx: typer.Context,
    kind: Annotated[str, typer.Option(help="vehicle, face, person or mover.")] = "",
    plate: Annotated[str, typer.Option(help=_PLATE_HELP)] = "",
    tolerance: Annotated[str, typer.Option(help=_TOLERANCE_HELP)] = "",
    checkpoint: Annotated[str, typer.Option(help="A checkpoint's id.")] = "",
    camera: Annotated[str, typer.Option(help="A device's address.")] = "",
    from_: Annotated[
        str, typer.Option("--from", help="Captured from: 2017-08-24, or with 17:25[:34].")
    ] = "",
    until: Annotated[str, typer.Option(help="Captured before.")] = "",
    text: Annotated[str, typer.Option(help="Text that the message contains.")] = "",
    area: Annotated[str, typer.Option(help=_AREA_HELP)] = "",
    limit: Limit = 20,
    as_json: AsJsonLines = False,
) -> None:
    """Stored records, newest capture first, with the path of their picture."""
    settings = ctx.obj
    query = Query(
        kind=kind,
        plate=plate,
        tolerance=_tolerance(plate, tolerance),
        checkpoint_id=checkpoint,
        camera_ip=camera,
        captured_from_ms=_moment(from_, settings.site.zone, "--from"),
        captured_until_ms=_moment(until, settings.site.zone, "--until"),
        text=text,
        area=_area(ctx, area),
    )
    from ingest.pictures.open import open_pictures

    pictures = open_pictures(settings.pictures, settings.site, settings.edge)
    url, confusion = settings.store.records_url(settings.site), source_of(settings.site)
    reader = open_store(url, read_confusion=confusion.read)
    try:
        found = list(_pages(reader, query, limit))
    finally:
        reader.close()
    if as_json:
        for row in found:
            _print_json(_as_dict(row, pictures))
        return
    _print_records(found, pictures, settings.site.zone)


def rejected(
    ctx: typer.Context,
    kind: Annotated[str, typer.Option(help="vehicle, face or video.")] = "",
    reason: Annotated[str, typer.Option(help="Only of this reason, such as bad-time.")] = "",
    limit: Limit = 20,
    as_json: AsJsonLines = False,
) -> None:
    """Rejected records with their reason, newest first; --json shows their bytes as text."""
    settings = ctx.obj
    reader = open_store(settings.store.records_url(settings.site))
    try:
        found, _ = reader.rejected(kind=kind, reason=reason, page=PageRequest(limit=limit))
    finally:
        reader.close()
    if as_json:
        for row in found:
            _print_json(_as_dict(row, None))
        return
    _print_rejected(found, settings.site.zone)


def check_message(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A message, an array, or one per line; - reads standard input.")
    ],
    kind: Annotated[str, typer.Option(help="vehicle, face or video; else guessed.")] = "",
    as_json: AsJsonLines = False,
) -> None:
    """Explain every fault of the messages a device sends, in English and Chinese.

    Errors mean that the record would be rejected (exit status 1), warnings that something of it is
    lost.
    """
    if kind and kind not in KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}")
    body = _read(file)
    lines = file.suffix in (".jsonl", ".ndjson")
    values = split(body, min(LINES_TYPES) if lines else min(JSON_TYPES))
    console, failed = screen(), False
    for number, value in enumerate(values, 1):
        is_kind = kind or guess_kind(value)
        faults = explain(
            value,
            is_kind,
            ctx.obj.site.zone,
            received_at_ms=wall_clock.now_ms(),
            clock=clock_limits(ctx.obj.site),
            max_picture_bytes=ctx.obj.edge.max_picture_bytes,
        )
        failed = failed or any(fault.level == "error" for fault in faults)
        if as_json:
            _print_json({"message": number, "kind": is_kind, "faults": msgspec.to_builtins(faults)})
        else:
            _print_faults(console, number, len(values), is_kind, faults)
    raise typer.Exit(1 if failed else 0)


def hbase_tables(
    ctx: typer.Context,
    regions: Annotated[int, typer.Option(help="Regions of each table: 1, 2, 4, 8 or 16.")] = 16,
) -> None:
    """Print what makes the store's tables in several regions: pipe it into `hbase shell -n`.

    Before the first start, that is: tables that ingest makes itself begin as one region each.
    """
    settings = ctx.obj
    if regions not in REGIONS:
        raise typer.BadParameter(f"{regions} is not one of {', '.join(map(str, REGIONS))}")
    try:
        found = hbase_statements(
            settings.store.records_url(settings.site), settings.retention, regions
        )
    except StoreError as error:
        raise typer.BadParameter(str(error), param_hint="store.url") from None
    print("\n".join(found))


def _pages(reader: RecordReader, query: Query, limit: int) -> Iterator[RecordRow]:
    cursor, left = "", limit
    while left > 0:
        rows, cursor = reader.query(query, PageRequest(limit=min(left, PAGE_ROWS), cursor=cursor))
        yield from rows
        left -= len(rows)
        if not cursor:
            return


def _tolerance(plate: str, text: str) -> SearchTolerance:
    if text not in SEARCH_TOLERANCES:
        known = ", ".join(filter(None, SEARCH_TOLERANCES))
        raise typer.BadParameter(f"{text!r} is not one of {known}", param_hint="--tolerance")
    try:
        tolerant_plate(plate, text)
    except NotOnePlate as error:
        raise typer.BadParameter(str(error), param_hint="--plate") from None
    return text


def _area(ctx: typer.Context, text: str) -> SearchedArea | None:
    """By the site's register as it is."""
    if not text:
        return None
    from bus.client.register_follower import RegisterFollower

    try:
        read_area(text)
        path = ctx.obj.site.data_path / "register.json"
        with closing(RegisterFollower(ctx.obj.bus, path, "records-register").start()) as register:
            if not register.wait_until_read(_REGISTER_READ_S):
                raise typer.BadParameter(
                    "the register could not be read, so that no place is known: is the bus up?",
                    param_hint="--area",
                )
            found = searched_area(text, RegisteredPlaces(register.read()))
    except AreaFault as error:
        raise typer.BadParameter(str(error), param_hint="--area") from None
    if not found.place_count:
        typer.echo("warning: nothing of the register stands in this area", err=True)
    return found


def _moment(text: str, zone: str, option: str) -> int:
    """Local time of the site, as short as one likes to type it."""
    if not text:
        return 0
    full = text + "2000-01-01 00:00:00"[len(text) :]
    try:
        return local_time(zone).to_ms(full)
    except BadTime:
        raise typer.BadParameter(f"{text!r} is no local time", param_hint=option) from None


def _as_dict(row: RecordRow | RejectedRow, pictures: PictureStore | None) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.structs.asdict(row)
    body = found.pop("body")
    try:
        found["record"] = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        found["bytes"] = body.decode("utf-8", "backslashreplace")
    if pictures is not None and isinstance(row, RecordRow):
        found["picture_path"] = pictures.path_of(row.picture_url)
    return found


def _print_records(rows: Iterable[RecordRow], pictures: PictureStore, zone: str) -> None:
    table = Table("captured", "kind", "checkpoint", "device", "plate / what", "latency", "picture")
    for row in rows:
        table.add_row(
            _local(row.captured_at_ms, zone),
            row.kind,
            row.checkpoint_id,
            row.camera_ip,
            row.plate_number or " ".join(filter(None, (row.vehicle_color, row.vehicle_type))),
            _latency(row),
            pictures.path_of(row.picture_url) or row.picture_url,
        )
    _print_table(table, "nothing stored that matches")


def _latency(row: RecordRow) -> str:
    if row.is_ordered_by_arrival:
        return f"clock {row.clock_off_ms / 3_600_000:+.1f} h"
    if row.has_untrue_arrival:
        return "no arrival"  # its producer's clock is wrong
    latency = f"{(row.stored_at_ms - row.captured_at_ms) / 1000:.1f} s"
    if not row.clock_off_ms:
        return latency
    return f"{latency} (clock {row.clock_off_ms / 1000:+,.1f} s)"


def _print_rejected(rows: Iterable[RejectedRow], zone: str) -> None:
    table = Table("received", "kind", "reason", "field", "device", "server", "source", "message")
    for row in rows:
        table.add_row(
            _local(row.received_at_ms, zone),
            row.kind,
            f"{row.reason}\n{reason_texts(row.reason)[0]}",
            row.field,
            row.camera_ip,
            row.recognizer_ip,
            row.source,
            row.body[:_LISTED_BYTES].decode("utf-8", "backslashreplace"),
        )
    _print_table(table, "nothing rejected that matches")


def _print_table(table: Table, nothing: str) -> None:
    console = screen()
    if table.row_count:
        console.print(table)
    else:
        console.print(nothing)


def _print_faults(
    console: Console, number: int, total: int, kind: str, faults: list[Diagnostic]
) -> None:
    title = f"message {number} of {total} ({kind})"
    if not faults:
        console.print(f"[green]{title}: nothing to complain about[/green]")
        return
    refused = any(fault.level == "error" for fault in faults)
    console.print(f"[bold]{title}: {'would be rejected' if refused else 'valid'}[/bold]")
    for fault in faults:
        colour = "red" if fault.level == "error" else "yellow"
        console.print(f"  [{colour}]{fault.level}[/{colour}] {fault.reason} {fault.field}")
        console.print(f"    {fault.message}", markup=False, highlight=False)
        console.print(f"    {fault.message_zh}", markup=False, highlight=False)


def _print_json(found: dict[str, object]) -> None:
    print(msgspec.json.encode(found).decode())


def _local(moment_ms: int, zone: str) -> str:
    try:
        return local_time(zone).to_text(moment_ms)
    except (OverflowError, ValueError):  # past the year 9999; datetime ends there
        return datetime.max.strftime("%Y-%m-%d")


def _read(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
