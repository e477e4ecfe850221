"""The originals (I-7): `PictureStore` reads and writes them, `PictureWriter` is the edge's side,
`AlarmCopies` keeps those of alarms."""

from __future__ import annotations

from bus.settings import SiteSettings
from ingest.pictures.alarm_copies import AlarmCopies
from ingest.pictures.names import picture_name
from ingest.pictures.retention import PictureRetention
from ingest.pictures.store import PictureStore
from ingest.pictures.writer import PictureWriter
from ingest.settings import EdgeSettings, PictureSettings

__all__ = [
    "AlarmCopies",
    "PictureRetention",
    "PictureStore",
    "PictureWriter",
    "open_pictures",
    "picture_name",
]


def open_pictures(
    pictures: PictureSettings, site: SiteSettings, edge: EdgeSettings
) -> PictureStore:
    """The store of a site, with the addresses its edge serves."""
    return PictureStore(pictures.store_url(site), pictures.base_url(edge))
