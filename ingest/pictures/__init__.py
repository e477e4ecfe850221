"""The originals (I-7): `PictureStore` for who writes and reads them, `PictureKeeper` for the
edge."""

from __future__ import annotations

from bus.settings import SiteSettings
from ingest.pictures.keeper import PictureKeeper
from ingest.pictures.names import picture_name
from ingest.pictures.store import PictureStore
from ingest.settings import EdgeSettings, PictureSettings

__all__ = ["PictureKeeper", "PictureStore", "open_pictures", "picture_name"]


def open_pictures(
    pictures: PictureSettings, site: SiteSettings, edge: EdgeSettings
) -> PictureStore:
    """The store of a site, with the addresses its edge serves."""
    return PictureStore(pictures.store_url(site), pictures.base_url(edge))
