"""The command `synopsis`."""

from __future__ import annotations

import sys
import tempfile
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bus.cli.local_times import typed_time
from ingest.video.synopsis.settings import SynopsisSettings

if TYPE_CHECKING:  # a verb loads what it needs when it runs
    from ingest.video.synopsis.making import Synopsis
    from ingest.video.synopsis.selection import TubeSelection
    from ingest.video.synopsis.source_film import SourceFilm
    from ingest.video.synopsis.tubes import Tube

DEFAULTS = SynopsisSettings()
FROM_FILE = "file"


class TargetOption(StrEnum):
    """Classes that may be asked for."""

    PERSON = "person"
    VEHICLE = "vehicle"
    THING = "thing"


class ColourOption(StrEnum):
    """The ten colours of GA 24.8."""

    WHITE = "white"
    GREY = "grey"
    BLACK = "black"
    RED = "red"
    PINK = "pink"
    BROWN = "brown"
    YELLOW = "yellow"
    GREEN = "green"
    BLUE = "blue"
    PURPLE = "purple"


class DirectionOption(StrEnum):
    """Where a target goes, as the picture shows it."""

    LEFT = "left"
    RIGHT = "right"
    UP = "up"
    DOWN = "down"


def mount(app: typer.Typer) -> None:
    """Add `synopsis`."""
    app.command("synopsis")(synopsis)


def synopsis(
    film: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A film.")],
    tracks: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False,
            help="Its targets, as `recognise --tracks` writes them; default: they are looked for.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Default: beside the film, .synopsis.webm; its map is .json."
        ),
    ] = None,
    length: Annotated[
        float | None, typer.Option(min=1.0, max=3600, help="Seconds; default: by --density.")
    ] = None,
    density: Annotated[
        float | None,
        typer.Option(
            min=0.001, max=1.0,
            help="Share of the picture that targets cover; 0.08, but never above 12 % of the film.",
        ),
    ] = None,
    min_track: Annotated[
        float, typer.Option(min=0.0, help="Seconds; who was seen for less is left out.")
    ] = DEFAULTS.least_track_s,
    kind: Annotated[
        list[TargetOption] | None, typer.Option("--class", help="Only these; several may be given.")
    ] = None,
    colour: Annotated[
        list[ColourOption] | None, typer.Option(help="Only targets that have one of these.")
    ] = None,
    area: Annotated[
        str, typer.Option(help="x,y,width,height in pixels: only targets that set foot in it.")
    ] = "",
    direction: Annotated[
        list[DirectionOption] | None, typer.Option(help="Only targets that go there on the whole.")
    ] = None,
    order: Annotated[
        float,
        typer.Option(
            min=0.0, max=10.0, help="How much it counts that who came first is shown first; 0: not."
        ),
    ] = DEFAULTS.order,
    speed: Annotated[
        int, typer.Option(min=1, max=16, help="How many times as quick targets are shown.")
    ] = DEFAULTS.speed,
    start: Annotated[
        str,
        typer.Option(
            help='"YYYY-MM-DD HH:MM:SS" of the first frame: labels show the time of day; default: '
            "the time since the film began."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the annealing.")] = DEFAULTS.seed,
) -> None:
    """Show all targets of a film together in a short one, each with its true time.

    The result is WebM; the map beside it names the frame and time of the film for each target in
    each picture. Nothing is sent.
    """
    from ingest.video.synopsis.making import NoTarget
    from ingest.video.synopsis.patch_file import PatchFileError
    from ingest.video.synopsis.selection import TubeSelection, parse_area
    from ingest.video.synopsis.track_rows import TrackRowsError
    from ingest.video.video_reader import NotAVideo

    settings = SynopsisSettings(
        length_s=length, density=density or DEFAULTS.density, least_track_s=min_track,
        speed=speed, order=order, seed=seed,
        most_share=DEFAULTS.most_share if density is None else 1.0,
    )  # fmt: skip
    try:
        place = parse_area(area) if area else None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--area") from error
    selection = TubeSelection(
        min_track, frozenset(one.value for one in kind or ()),
        frozenset(one.value for one in colour or ()), place,
        frozenset(one.value for one in direction or ()),
    )  # fmt: skip
    begun = typed_time(start, "--start") if start else None
    try:
        _make(film, tracks, out or film.with_suffix(".synopsis.webm"), selection, settings, begun)
    except (NotAVideo, NoTarget, PatchFileError, TrackRowsError, OSError) as error:
        typer.echo(f"databus: {error}", err=True)
        raise typer.Exit(1) from error


def _make(
    path: Path, tracks: Path | None, out: Path, selection: TubeSelection,
    settings: SynopsisSettings, begun: datetime | None,
) -> None:  # fmt: skip
    from bus.files.durable_file import replace_durably
    from ingest.senders.video.progress import progress_display
    from ingest.video.synopsis.making import make_synopsis
    from ingest.video.synopsis.source_film import SourceFilm
    from ingest.video.synopsis.synopsis_map import VERSION, SynopsisMap, encode_map

    if out.suffix != ".webm":
        raise typer.BadParameter("a synopsis is WebM: its name ends in .webm", param_hint="--out")
    film = SourceFilm(path, settings.width_px)
    tubes, recognised_by = _tubes(film, tracks)
    begun_ms = None if begun is None else _of_day_ms(begun)
    with (
        tempfile.TemporaryDirectory(prefix="synopsis-") as folder,
        progress_display(path.name, 2 * film.frame_count, sys.stderr) as progress,
    ):
        def on_step(what: str, at: int) -> None:
            progress.at(at + (film.frame_count if what == "cut" else 0))

        made = make_synopsis(
            film, tubes, selection, settings, out, Path(folder), begun_ms, on_step
        )  # fmt: skip
    replace_durably(out.with_suffix(".json"), encode_map(SynopsisMap(
        version=VERSION, film=path.name, film_identity=film.identity, source_fps=film.fps,
        source_frames=film.frame_count, begun="" if begun is None else begun.isoformat(" "),
        recognised_by=recognised_by, fps=film.fps, width=film.size[0], height=film.size[1],
        seed=settings.seed, frames=made.frames,
    )))  # fmt: skip
    _print_result(film, made, settings, out)


def _tubes(film: SourceFilm, tracks: Path | None) -> tuple[list[Tube], str]:
    """All targets of the film, and what found them."""
    from ingest.video.synopsis.track_rows import TrackRowsError, read_track_rows
    from ingest.video.synopsis.tubes import dense_tubes

    if tracks is None:
        return _searched(film)
    try:
        points = read_track_rows(tracks.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise TrackRowsError(f"{tracks} is no text") from error
    except TrackRowsError as error:
        raise TrackRowsError(f"{tracks}: {error}") from error
    found = [tube for track, some in points.items() for tube in dense_tubes(track, some, film.fps)]
    return found, FROM_FILE


def _searched(film: SourceFilm) -> tuple[list[Tube], str]:
    from bus.files.cache_folder import cache_folder
    from ingest.senders.video.progress import progress_display
    from ingest.video.models.installed import installed_detector
    from ingest.video.recognise import MOTION
    from ingest.video.settings import VideoSettings
    from ingest.video.synopsis.searching import found_tubes

    model = installed_detector(cache_folder())
    if model is None:
        typer.echo(
            "databus: no detector is set up, so that only what moves is shown and nothing says what"
            " it is; say `./databus setup --with video` first",
            err=True,
        )
    with progress_display(film.path.name, film.frame_count, sys.stderr) as progress:
        tubes = found_tubes(film.path, film.fps, VideoSettings(), model, progress.at)
    return tubes, MOTION if model is None else model.name


def _print_result(film: SourceFilm, made: Synopsis, settings: SynopsisSettings, out: Path) -> None:
    count, of = len(made.frames), 0.01 * max(1, made.target_frames)
    typer.echo(
        f"{out}: {count / film.fps:.1f} s of {film.frame_count / film.fps:.1f} s"
        f" ({100 * count / film.frame_count:.1f} %), {len(made.tracks)} of {len(made.chosen)}"
        f" targets; on one another {made.collided / of:.0f} %, without"
        f" room for a label {made.unlabelled / of:.1f} %;"
        f" seed {settings.seed}"
    )


def _of_day_ms(at: datetime) -> int:
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    return seconds * 1000 + at.microsecond // 1000
