"""By what the SQLite store finds records beside their time, and how long a facet's block is."""

from __future__ import annotations

FACET_PLATE, FACET_CHECKPOINT, FACET_KIND = 1, 2, 3
HOUR_MS = 3_600_000
