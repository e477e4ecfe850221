"""The twelve rules over a history, all at once.

In: events of `history`. Out: violations, at most `MOST_PER_RULE` of each rule. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tests.checker import groups, records, transactions
from tests.checker.history import AnyEvent
from tests.checker.index import Index, Violation, index

__all__ = ["RULES", "Violation", "check"]

MOST_PER_RULE = 20
"""More of the same does not help."""

RULES: dict[int, Callable[[Index], Iterator[Violation]]] = {
    1: records.inconsistent_offsets,
    2: records.duplicates,
    3: records.lost_writes,
    4: records.unseen_writes,
    5: transactions.aborted_reads,
    6: transactions.precommitted_reads,
    7: records.poll_order,
    8: transactions.order_within_transactions,
    9: records.send_order,
    10: transactions.cycles,
    11: groups.committed_offsets,
    12: records.replicas_agree,
}


def check(events: Iterable[AnyEvent]) -> list[Violation]:
    """Every rule that the history breaks."""
    ordered = index(events)
    found: list[Violation] = []
    for rule in RULES.values():
        found += islice(rule(ordered), MOST_PER_RULE)
    return found
