"""What every store makes of a question in the same way: pages, times without an end, plates. Pure.

In: parts of `Query` and `Page`. Out: values. Never: where a store looks.
"""

from __future__ import annotations

from functools import lru_cache

from ingest.normalise.plate import plate_key, plate_pattern

MAX_PAGE_ROWS = 10_000  # a page is held in memory; more is asked for page by page
FOREVER_MS = 1 << 62  # beyond every epoch in milliseconds: "until" where none was asked for
# The kind of most records: not worth a facet, the capture time finds its newest at once.
COMMON_KIND = "vehicle"
ANY = "*"


def bounded(limit: int) -> int:
    """The number of rows a page may really have."""
    return min(max(limit, 1), MAX_PAGE_ROWS)


@lru_cache(maxsize=256)
def has_no_key(plate: str) -> bool:
    """Whether it is 无车牌 or the like: these are found as the device wrote them."""
    return ANY not in plate_pattern(plate) and not plate_key(plate)
