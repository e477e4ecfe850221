"""The verb `recognise`.

In: the command line, settings in `ctx.obj`. Out: how far it is, and the counts. Never: more.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from ingest.normalise.clock import FIRST_TRUE_MS

if TYPE_CHECKING:  # a verb loads what it needs when it runs
    from ingest.video.delivery import Delivery


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
    from bus.errors import BusError
    from ingest.normalise.local_time import local_time
    from ingest.pictures import open_pictures
    from ingest.replay.bus_sink import BusSink, NotSent
    from ingest.video.delivery import Delivery
    from ingest.video.film import Film, NotAFilm
    from ingest.video.progress import shown
    from ingest.video.recognise import recognise as work
    from ingest.video.reports import Place
    from ingest.video.settings import VideoSettings

    try:
        film = Film(video)
    except NotAFilm as error:
        raise typer.BadParameter(str(error), param_hint="VIDEO") from error
    site = ctx.obj.site
    started_ms = _start_ms(start, site.tz) if start else _written_ms(video) - film.duration_ms
    place = Place(checkpoint, camera, server, film.identity, started_ms, video.absolute().as_uri())
    delivery = Delivery(
        sink=BusSink(ctx.obj.bus, client_id="recognise", fixed_headers={"site": site.name}),
        pictures=open_pictures(ctx.obj.pictures, site, ctx.obj.edge),
        place=place,
    )
    settings = VideoSettings(looks_per_second=looks)
    try:
        with shown(video.name, film.frames, sys.stderr) as progress:
            for report in work(
                film, place, settings, local_time(site.zone),
                lambda moment: progress.at(moment.frame_number),
            ):  # fmt: skip
                delivery.send(report, _now_ms())
                progress.found(delivery.sent.total())
            delivery.finish()
    except (BusError, NotSent) as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        delivery.sink.close()
        film.close()
    _tell(video.name, film.identity, delivery, as_json)


def _tell(name: str, identity: str, delivery: Delivery, as_json: bool) -> None:
    """What was sent of the film."""
    if as_json:
        typer.echo(json.dumps({"sent": delivery.sent, "film": identity}))
        return
    sent = ", ".join(f"{topic} {n}" for topic, n in sorted(delivery.sent.items())) or "nothing"
    typer.echo(f"{name}: sent {sent}; pictures lost: {delivery.pictures_lost}")


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
    return written_ms if FIRST_TRUE_MS < written_ms <= _now_ms() else _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
