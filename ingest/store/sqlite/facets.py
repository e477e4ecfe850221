"""By what the SQLite store finds records beside their time, and how long a facet's block is."""

from __future__ import annotations

FACET_PLATE, FACET_CHECKPOINT, FACET_KIND, FACET_PARTLY_READ = 1, 2, 3, 4
"""Whole plates by key; partly read ones by form."""
HOUR_MS = 3_600_000
