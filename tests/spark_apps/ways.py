"""Where the work of a record is done; of the three ways a run tries some, drawn by its seed."""

from __future__ import annotations

from tests.rotation import drawn

WAYS = ("driver", "executors", "executors into HBase")


def drawn_ways(name: str, count: int = 1) -> list[str]:
    """So many of the three for the test of this name."""
    return drawn(f"ways:{name}", WAYS, count)
