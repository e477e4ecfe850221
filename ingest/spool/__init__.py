"""The spool: what the edge has acknowledged and the bus does not have yet."""

from ingest.spool.frame import SpoolEntry
from ingest.spool.spool import Queued, Spool, SpoolFull

__all__ = ["Queued", "Spool", "SpoolEntry", "SpoolFull"]
