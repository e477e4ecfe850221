"""The spool: what the edge has acknowledged and the bus does not have yet."""

from ingest.spool.frame import SpoolEntry
from ingest.spool.queued import Queued
from ingest.spool.retained_records import Delivered, Place
from ingest.spool.retained_segments import RetainedReader
from ingest.spool.spool import Spool, SpoolFull

__all__ = [
    "Delivered",
    "Place",
    "Queued",
    "RetainedReader",
    "Spool",
    "SpoolEntry",
    "SpoolFull",
]
