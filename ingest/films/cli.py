"""The commands `film add` and `film list`.

In: words, the composed settings in `ctx.obj`. Out: a table, or JSON. Never: the work itself.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.table import Table

from bus.cli.local_times import typed_time
from bus.cli.show import AsJsonLines, screen
from bus.contracts.video_segments import VideoSegment


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    film = typer.Typer(no_args_is_help=True, help="Films of cameras: add one, list what is kept.")
    film.command("add")(add)
    film.command("list")(list_segments)
    app.add_typer(film, name="film")


def add(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A film in H.264 or H.265.", show_default=False)],
    camera: Annotated[str, typer.Option(help="The device's address.")],
    start: Annotated[str, typer.Option(help="When it begins: 2017-08-24T17:25:34[.123].")],
    clock_offset: Annotated[
        str, typer.Option(help="Seconds by which the device's clock is ahead; or unknown.")
    ] = "unknown",
    as_json: AsJsonLines = False,
) -> None:
    """Keep a film that a device has recorded itself: cut at keyframes, not encoded again."""
    from ingest.films.added_film import FilmRefused, add_film

    settings = ctx.obj
    start_ms = _moment(start, settings.site.zone, "--start")
    offset_ms = _offset_ms(clock_offset)
    try:
        added = add_film(
            settings.site, settings.bus, settings.film, file, camera, start_ms, offset_ms
        )
    except FilmRefused as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        _print_json(added.segments)
    else:
        _print_table(added.segments, settings.site.zone)
    if not added.is_announced:
        typer.echo(
            "databus: kept; the bus has not confirmed all of it: the recorder announces the rest,"
            " or this command once more", err=True,
        )  # fmt: skip
        raise typer.Exit(1)


def list_segments(
    ctx: typer.Context,
    camera: Annotated[str, typer.Argument(help="The device's address.", show_default=False)],
    from_: Annotated[
        str, typer.Option("--from", help="From: 2017-08-24, or with T17:25[:34].")
    ] = "",
    until: Annotated[str, typer.Option(help="Before.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest.")] = (
        1_000
    ),
    as_json: AsJsonLines = False,
) -> None:
    """What is kept of a camera's film, with its gaps and what was deleted, by time."""
    from ingest.store.open import open_store

    settings = ctx.obj
    reader = open_store(settings.store.records_url(settings.site))
    try:
        found = reader.segments(
            camera,
            from_ms=_moment(from_, settings.site.zone, "--from"),
            until_ms=_moment(until, settings.site.zone, "--until"),
            limit=limit,
        )
    finally:
        reader.close()
    if as_json:
        _print_json(found)
    else:
        _print_table(found, settings.site.zone)


def _print_json(segments: list[VideoSegment]) -> None:
    for one in segments:
        typer.echo(msgspec.json.encode(one).decode())


def _print_table(segments: list[VideoSegment], zone: str) -> None:
    table = Table("begins", "ends", "state", "codec", "size", "bytes", "keyframes", "file")
    for one in segments:
        state = f"{one.state} ({one.reason})" if one.reason else one.state
        size = f"{one.width}×{one.height}" if one.width else ""
        table.add_row(
            _local(one.start_ms, zone), _local(one.end_ms, zone), state, one.codec or "", size,
            str(one.size_bytes or ""), str(len(one.keyframes) or ""), one.name,
        )  # fmt: skip
    screen().print(table)


def _local(moment_ms: int, zone: str) -> str:
    local = datetime.fromtimestamp(moment_ms / 1000, ZoneInfo(zone)).replace(tzinfo=None)
    return local.isoformat(" ", "milliseconds")


def _moment(text: str, zone: str, option: str) -> int:
    if not text:
        return 0
    local = typed_time(text, option)
    try:
        return int(local.replace(tzinfo=local.tzinfo or ZoneInfo(zone)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:  # before the first day of the calendar
        raise typer.BadParameter(f"{text!r} is no local time", param_hint=option) from error


def _offset_ms(text: str) -> int | None:
    """None for a clock of which nothing is known."""
    if text == "unknown":
        return None
    try:
        return round(float(text) * 1000)
    except (ValueError, OverflowError) as error:
        hint = "--clock-offset"
        raise typer.BadParameter(f"{text!r} is no number of seconds", param_hint=hint) from error
