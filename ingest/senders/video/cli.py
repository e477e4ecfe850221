"""The command `recognise`."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from bus.runtime import wall_clock
from ingest.normalise.clock import FIRST_TRUE_MS

if TYPE_CHECKING:  # a verb loads what it needs when it runs
    from ingest.senders.video.publisher import ReportPublisher


def mount(app: typer.Typer) -> None:
    """Add `recognise`."""
    app.command("recognise")(recognise)


def recognise(
    ctx: typer.Context,
    video: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A film.")],
    checkpoint: Annotated[str, typer.Option(help="卡口编号 of the place that the film shows.")],
    camera: Annotated[str, typer.Option(help="Address of the camera that took it.")] = "127.0.0.1",
    server: Annotated[str, typer.Option(help="Address of this recognition server.")] = "127.0.0.1",
    start: Annotated[
        str,
        typer.Option(
            help='"YYYY-MM-DD HH:MM:SS" of the first frame; default: the film ends when its file '
            "was last written."
        ),
    ] = "",
    looks: Annotated[
        float, typer.Option(min=0.1, help="Looks per second of film; frames between are skipped.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Find and track people and other movers in a film, and send a record of each over the bus.

    Records go to data.video (faces large enough to data.face), pictures to the picture store. The
    ids depend on film and checkpoint only, so that a second look changes nothing in the store.
    """
    from bus.domain.times import local_time
    from bus.errors import BusError
    from ingest.pictures.open import open_pictures
    from ingest.senders.replay.bus_sink import BusSink, RecordsNotSent
    from ingest.senders.video.progress import progress_display
    from ingest.senders.video.publisher import ReportPublisher
    from ingest.video.recognise import recognise as work
    from ingest.video.reports import VideoSource
    from ingest.video.settings import VideoSettings
    from ingest.video.video_reader import NotAVideo, VideoReader

    try:
        film = VideoReader(video)
    except NotAVideo as error:
        raise typer.BadParameter(str(error), param_hint="VIDEO") from error
    site = ctx.obj.site
    started_ms = _start_ms(start, site.tz) if start else _written_ms(video) - film.duration_ms
    source = VideoSource(
        checkpoint, camera, server, film.identity, started_ms, video.absolute().as_uri()
    )
    publisher = ReportPublisher(
        sink=BusSink(ctx.obj.bus, client_id="recognise", fixed_headers={"site": site.name}),
        pictures=open_pictures(ctx.obj.pictures, site, ctx.obj.edge),
        source=source,
    )
    settings = VideoSettings(looks_per_second=looks)
    try:
        with progress_display(video.name, film.frame_count, sys.stderr) as progress:
            for report in work(
                film, source, settings, local_time(site.zone),
                lambda moment: progress.at(moment.frame_number),
            ):  # fmt: skip
                publisher.send(report, wall_clock.now_ms())
                progress.found(publisher.sent.total())
            publisher.finish()
    except (BusError, RecordsNotSent) as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        publisher.sink.close()
        film.close()
    _print_result(video.name, film.identity, publisher, as_json)


def _print_result(name: str, identity: str, publisher: ReportPublisher, as_json: bool) -> None:
    """Print what was sent of the film."""
    if as_json:
        typer.echo(json.dumps({"sent": publisher.sent, "film": identity}))
        return
    sent = ", ".join(f"{topic} {n}" for topic, n in sorted(publisher.sent.items())) or "nothing"
    typer.echo(f"{name}: sent {sent}; pictures lost: {publisher.pictures_lost}")


def _start_ms(text: str, zone: ZoneInfo) -> int:
    try:
        local = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no local time", param_hint="--start") from error
    return int(local.replace(tzinfo=zone).timestamp() * 1000)


def _written_ms(film: Path) -> int:
    """The same at every look, so that a second one sends the same records; now for a file whose
    time was never set (those of packages are of 1980)."""
    written_ms = film.stat().st_mtime_ns // 1_000_000
    return written_ms if FIRST_TRUE_MS < written_ms <= wall_clock.now_ms() else wall_clock.now_ms()
