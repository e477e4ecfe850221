"""A message of the spool on its way to the bus. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ingest.spool.frame import SpoolEntry


class Queued(NamedTuple):
    """A message with its place in the spool."""

    sequence: int
    entry: SpoolEntry
