"""The picture store of a site. In: settings. Out: a `PictureStore`. Never: a picture."""

from __future__ import annotations

from bus.settings import SiteSettings
from ingest.pictures.store import PictureStore
from ingest.settings import EdgeSettings, PictureSettings


def open_pictures(
    pictures: PictureSettings, site: SiteSettings, edge: EdgeSettings
) -> PictureStore:
    """The store of a site, with the addresses its edge serves."""
    return PictureStore(pictures.store_url(site), pictures.base_url(edge))
