"""A film that a device has recorded itself, into the film store.

In: a file, whose it is, when it begins by the device's clock. Out: segments, durable and announced.
The same file once more changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bus.contracts.video_segments import TimeSource, VideoSegment
from bus.runtime import wall_clock
from bus.settings import BusSettings, SiteSettings
from ingest.films.announcer import SegmentAnnouncer
from ingest.films.catalogue import FilmCatalogue
from ingest.films.film_file import CLOCK_HZ, FilmFile, NotAFilm
from ingest.films.nal_units import BadParameterSet
from ingest.films.names import segment_name
from ingest.films.segment_writer import keep_closed
from ingest.films.segmenter import NoKeyframe, SegmentBegun, SegmentData, SegmentEffect, Segmenter
from ingest.films.settings import FilmSettings
from ingest.films.store import FilmStore, VideoSegmentFile


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
        told = (timed_by, clock_offset_ms or 0)
        segments = list(
            _kept(store, catalogue, settings, path, camera_ip, start_ms, *told)
        )
        return AddedFilm(segments, announcer.announce_due())
    except (NotAFilm, NoKeyframe, BadParameterSet) as error:
        raise FilmRefused(str(error)) from error
    except OSError as error:
        raise FilmRefused(f"the film store takes nothing: {error}") from error
    finally:
        announcer.close()
        catalogue.close()


def _kept(
    store: FilmStore, catalogue: FilmCatalogue, settings: FilmSettings,
    path: Path, camera_ip: str, start_ms: int, timed_by: TimeSource, offset_ms: int,
) -> Iterator[VideoSegment]:  # fmt: skip
    film = FilmFile(path)
    segmenter = Segmenter(camera_ip, film.codec, CLOCK_HZ, settings.segment_s * 1000)
    growing = store.adding_path(f"{camera_ip}-{os.getpid()}")
    file: VideoSegmentFile | None = None
    found = False
    try:
        for effect in _effects(segmenter, film, start_ms - offset_ms):
            if isinstance(effect, SegmentBegun):
                file = VideoSegmentFile(growing)
                file.write(effect.data)
            elif isinstance(effect, SegmentData):
                assert file is not None
                file.write(effect.data)
            else:
                assert file is not None
                found = True
                segment = replace(
                    effect.segment, name=segment_name(effect.segment), timed_by=timed_by,
                    clock_offset_ms=offset_ms, changed_at_ms=wall_clock.now_ms(),
                )  # fmt: skip
                yield _keep(store, catalogue, segment, file)
                file = None
    finally:
        if file is not None:
            file.abandon()
    if not found:
        raise NotAFilm(f"{path} has no keyframe with which a film could begin")


def _effects(segmenter: Segmenter, film: FilmFile, start_ms: int) -> Iterator[SegmentEffect]:
    for unit in film.units(start_ms):
        yield from segmenter.on_unit(unit)
    yield from segmenter.finish()


def _keep(
    store: FilmStore, catalogue: FilmCatalogue, segment: VideoSegment, file: VideoSegmentFile
) -> VideoSegment:
    known = catalogue.segment(segment.segment_id)
    if known is not None:
        file.abandon()
        return known
    closed = store.closed_path(segment.segment_id)
    file.close(closed)
    return keep_closed(store, catalogue, segment, closed)
