"""Certificates that end soon: one condition for each, ahead of the day on which nobody trusts them,
and a worse one when that day is near.

In: certificates with their ends, the time. Out: `Condition`s. Never: a file. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from monitor.watch.conditions import Condition

WARN_MS = 30 * 86_400_000
"""Ahead of its end: a month to find the passphrase of the authority."""
CRITICAL_MS = 7 * 86_400_000
"""Ahead of its end: a week in which people are called, not only told."""


class CertificateEnd(NamedTuple):
    """`name`: whose it is, as `./databus secure rotate status` has it."""

    name: str
    ends_at_ms: int


def ending(certificates: Iterable[CertificateEnd], now_ms: int) -> list[Condition]:
    """A condition for each name; of two of one name, the one that ends first."""
    first: dict[str, int] = {}
    for name, ends_at_ms in certificates:
        first[name] = min(ends_at_ms, first.get(name, ends_at_ms))
    return [_condition(name, ends_at_ms, now_ms) for name, ends_at_ms in first.items()]


def _condition(name: str, ends_at_ms: int, now_ms: int) -> Condition:
    is_bad = ends_at_ms - now_ms < WARN_MS
    severity = "critical" if ends_at_ms - now_ms < CRITICAL_MS else "warning"
    ends = datetime.fromtimestamp(ends_at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Condition("certificate", name, is_bad, 0, {"ends": ends} if is_bad else {}, severity)
