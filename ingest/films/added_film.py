"""A film that a device has recorded itself, into the film store.

In: a file, whose it is, when it begins by the device's clock. Out: segments, durable and announced.
The same file once more changes nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from bus.contracts.video_segments import TimeSource, VideoSegment
from bus.settings import BusSettings, SiteSettings
from ingest.films.announcer import SegmentAnnouncer
from ingest.films.catalogue import FilmCatalogue
from ingest.films.film_file import CLOCK_HZ, FilmFile, NotAFilm
from ingest.films.nal_units import BadParameterSet
from ingest.films.segment_writer import DiskFailed, SegmentFiles
from ingest.films.segmenter import NoKeyframe, Segmenter
from ingest.films.settings import FilmSettings
from ingest.films.store import FilmStore


class FilmRefused(Exception):
    """A film that is not taken, and why."""


class AddedFilm(NamedTuple):
    """Its segments, and whether the bus has all of what it has to know."""

    segments: list[VideoSegment]
    is_announced: bool


def add_film(
    site: SiteSettings, bus: BusSettings, settings: FilmSettings,
    path: Path, camera_ip: str, start_ms: int, clock_offset_ms: int | None,
) -> AddedFilm:  # fmt: skip
    """Cut, keep, announce. `start_ms` by the device's clock; `clock_offset_ms`: by how much that is
    ahead, None where nobody knows. Raises `FilmRefused`; what was kept before stays."""
    if not settings.may_read(path):
        raise FilmRefused(f"{path} is in none of the folders of [film] roots")
    if start_ms <= 0:
        raise FilmRefused("a film begins after 1970")
    catalogue = FilmCatalogue(settings.catalogue_path(site))
    announcer = SegmentAnnouncer(bus, catalogue, "film")
    try:
        store = FilmStore(settings.store_url(site), settings.catalogue_path(site).parent)
        timed_by: TimeSource = "unknown" if clock_offset_ms is None else "device"
        segments = _kept(
            store, catalogue, settings, path, camera_ip, start_ms, timed_by, clock_offset_ms or 0
        )
        return AddedFilm(segments, announcer.announce_due())
    except (NotAFilm, NoKeyframe, BadParameterSet) as error:
        raise FilmRefused(str(error)) from error
    except (OSError, DiskFailed) as error:
        raise FilmRefused(f"the film store takes nothing: {error}") from error
    finally:
        announcer.close()
        catalogue.close()


def _kept(
    store: FilmStore, catalogue: FilmCatalogue, settings: FilmSettings,
    path: Path, camera_ip: str, start_ms: int, timed_by: TimeSource, offset_ms: int,
) -> list[VideoSegment]:  # fmt: skip
    film = FilmFile(path)
    segmenter = Segmenter(camera_ip, film.codec, CLOCK_HZ, settings.segment_s * 1000)
    growing = store.adding_path(f"{camera_ip}-{os.getpid()}")
    files = SegmentFiles(store, catalogue, growing, timed_by, offset_ms)
    found: list[VideoSegment] = []
    try:
        for unit in film.units(start_ms - offset_ms):
            found += files.write(segmenter.on_unit(unit))
        found += files.write(segmenter.finish())
    finally:
        files.drop()
    if not found:
        raise NotAFilm(f"{path} has no keyframe with which a film could begin")
    return found
