"""All pages of a watch list, for the tests that compare it whole."""

from __future__ import annotations

from bus.contracts.commands import DecidedRule
from bus.domain.visibility import EVERYTHING
from monitor.live.rule_table import RuleTable


def in_force(table: RuleTable, now_ms: int) -> list[DecidedRule]:
    """Newest first."""
    page = table.page(now_ms, viewer=EVERYTHING, limit=1000)
    rules = page.rules
    while page.cursor:
        page = table.page(now_ms, viewer=EVERYTHING, limit=1000, cursor=page.cursor)
        rules += page.rules
    return rules
