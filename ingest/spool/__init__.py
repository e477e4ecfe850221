"""The spool: what the edge has acknowledged and the bus does not have yet."""

from ingest.spool.frame import SpoolEntry
from ingest.spool.kept import Delivered, Place
from ingest.spool.kept_segments import KeptReader
from ingest.spool.queued import Queued
from ingest.spool.spool import Spool, SpoolFull

__all__ = [
    "Delivered", "KeptReader", "Place", "Queued", "Spool", "SpoolEntry", "SpoolFull",
]
