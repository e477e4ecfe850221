"""The command `recognise`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from bus.cli.local_times import typed_time
from bus.runtime import wall_clock
from ingest.normalise.clock import FIRST_TRUE_MS

if TYPE_CHECKING:  # a verb loads what it needs when it runs
    from ingest.senders.video.publisher import ReportPublisher
    from ingest.video.detection.port import Detector
    from ingest.video.reports import VideoSource
    from ingest.video.settings import VideoSettings
    from ingest.video.video_reader import VideoFrame, VideoReader


def mount(app: typer.Typer) -> None:
    """Add `recognise`."""
    app.command("recognise")(recognise)


def recognise(
    ctx: typer.Context,
    video: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A film.")],
    checkpoint: Annotated[
        str, typer.Option(help="卡口编号 of the place that the film shows.")
    ] = "",
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
    ] = 10.0,
    tracks: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Send nothing: write the targets' boxes to this file, as MOTChallenge's rows.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Find and track people, vehicles and other movers in a film; send a record of each.

    Records go to data.video (faces large enough to data.face), pictures to the picture store. The
    ids depend on film and checkpoint only, so that a second look changes nothing in the store.
    """
    from bus.files.cache_folder import cache_folder
    from ingest.video.models.installed import installed_detector
    from ingest.video.reports import VideoSource
    from ingest.video.settings import VideoSettings
    from ingest.video.video_reader import NotAVideo, VideoReader

    if tracks is None and not checkpoint:
        raise typer.BadParameter("which place does the film show?", param_hint="--checkpoint")
    try:
        film = VideoReader(video)
    except NotAVideo as error:
        raise typer.BadParameter(str(error), param_hint="VIDEO") from error
    settings, model = VideoSettings(looks_per_second=looks), installed_detector(cache_folder())
    if model is None:
        typer.echo(
            "databus: no detector is set up, so that only what moves is found and nothing says what"
            " it is; say `./databus setup --with video` first",
            err=True,
        )
    try:
        if tracks is not None:
            _write_tracks(film, settings, model, tracks)
            return
        started_ms = _start_ms(start, ctx.obj.site.tz) if start else _begun_ms(video, film)
        address = video.absolute().as_uri()
        source = VideoSource(checkpoint, camera, server, film.identity, started_ms, address)
        publisher = _send_reports(ctx.obj, film, source, settings, model)
    finally:
        film.close()
    _print_result(video.name, film.identity, publisher, as_json)


def _write_tracks(
    film: VideoReader, settings: VideoSettings, model: Detector | None, path: Path
) -> None:
    from ingest.senders.video.progress import progress_display
    from ingest.video.mot_rows import mot_rows
    from ingest.video.parts import WHOLE
    from ingest.video.recognise import find_tracks

    frames: dict[int, int] = {}
    with progress_display(film.path.name, film.frame_count, sys.stderr) as progress:

        def on_frame(frame: VideoFrame) -> None:
            frames[frame.at_ms] = frame.frame_number
            progress.at(frame.frame_number)

        found = [
            one.track
            for one in find_tracks(film, settings, WHOLE, model, on_frame, with_faces=False)
        ]
    scale = film.scale(settings.analysed_width_px)
    rows = mot_rows(found, frames, scale, int(settings.least_seconds * 1000))
    path.write_text("".join(f"{row}\n" for row in rows), "ascii")


def _send_reports(
    settings: Any, film: VideoReader, source: VideoSource, search: VideoSettings,
    model: Detector | None,
) -> ReportPublisher:  # fmt: skip
    from bus.domain.times import local_time
    from bus.errors import BusError
    from ingest.pictures.open import open_pictures
    from ingest.senders.replay.bus_sink import BusSink, RecordsNotSent
    from ingest.senders.video.progress import progress_display
    from ingest.senders.video.publisher import ReportPublisher
    from ingest.video.recognise import recognise as work

    site = settings.site
    publisher = ReportPublisher(
        sink=BusSink(settings.bus, client_id="recognise", fixed_headers={"site": site.name}),
        pictures=open_pictures(settings.pictures, site, settings.edge),
        source=source,
    )
    try:
        with progress_display(film.path.name, film.frame_count, sys.stderr) as progress:
            for report in work(
                film, source, search, local_time(site.zone), model,
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
    return publisher


def _print_result(name: str, identity: str, publisher: ReportPublisher, as_json: bool) -> None:
    """Print what was sent of the film."""
    if as_json:
        typer.echo(json.dumps({"sent": publisher.sent, "film": identity}))
        return
    sent = ", ".join(f"{topic} {n}" for topic, n in sorted(publisher.sent.items())) or "nothing"
    typer.echo(f"{name}: sent {sent}; pictures lost: {publisher.pictures_lost}")


def _start_ms(text: str, zone: ZoneInfo) -> int:
    return int(typed_time(text, "--start").replace(tzinfo=zone).timestamp() * 1000)


def _begun_ms(video: Path, film: VideoReader) -> int:
    """As if its file had been written last when it ended. The same at every look, so that a second
    one sends the same records; from now on for a file whose time was never set (those of packages
    are of 1980)."""
    written_ms, now_ms = video.stat().st_mtime_ns // 1_000_000, wall_clock.now_ms()
    ended_ms = written_ms if FIRST_TRUE_MS < written_ms <= now_ms else now_ms
    return ended_ms - film.duration_ms
