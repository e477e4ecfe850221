"""By what the SQLite store finds records beside their time, and how long a facet's block is."""

from __future__ import annotations

FACET_PLATE, FACET_CHECKPOINT, FACET_KIND, FACET_PARTLY_READ, FACET_PLATE_REVERSED = 1, 2, 3, 4, 5
"""Whole plates by key, and from their last character to their first, so that those which end with
something lie together; partly read ones by form."""
HOUR_MS = 3_600_000
