"""Totals of a store as the account reads them. Pure.

In: the rows of the totals, as either store keeps them. Out: `Counts`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.store.port import Counts

STORED, DUPLICATES = "stored", "duplicates"
REJECTED, REJECTED_DUPLICATES = "rejected", "rejected duplicates"

Total = tuple[str, str, str, int]
"""What is counted, of which kind, for which reason (rejected ones only), how many."""


def counts_of(totals: Iterable[Total]) -> Counts:
    """All of them in their places."""
    rejected: dict[str, dict[str, int]] = {}
    plain: dict[str, dict[str, int]] = {STORED: {}, DUPLICATES: {}, REJECTED_DUPLICATES: {}}
    for name, kind, reason, count in totals:
        if name == REJECTED:
            rejected.setdefault(kind, {})[reason] = count
        else:
            plain[name][kind] = count
    return Counts(
        stored=plain[STORED],
        rejected=rejected,
        duplicates=plain[DUPLICATES],
        rejected_duplicates=plain[REJECTED_DUPLICATES],
    )
