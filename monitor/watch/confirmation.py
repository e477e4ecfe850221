"""Whether this site waits to be confirmed as the primary after it was down as a whole. Pure.

In: what the brokers say of the site's keys, who is alive. Out: a `Condition`. Never: a word while
the keys cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.contracts.site_confirmation import (
    SITE_MEMBERS_KEY,
    SiteConfirmationError,
    parse_members,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY, SiteEpochError, parse_site_epoch
from monitor.watch.conditions import Condition

BOUND_MS = 15_000
"""A running mirror confirms within seconds."""


@dataclass(frozen=True, slots=True)
class SiteKeysOfBus:
    """`configs`: of all brokers, by key; `alive`: ids of the brokers."""

    cluster_id: str
    configs: Mapping[str, str]
    alive: frozenset[int]


def confirmation_condition(found: SiteKeysOfBus) -> Condition:
    """Bad while a broker's process is not confirmed. A secondary waits for nobody, nor does a
    cluster without a second site."""
    waiting: frozenset[int] | None = frozenset()
    try:
        members = found.configs.get(SITE_MEMBERS_KEY)
        if members is not None and not _is_secondary(found):
            waiting = found.alive - parse_members(members).keys()
    except (SiteConfirmationError, SiteEpochError):
        waiting = None
    is_bad = None if waiting is None else bool(waiting)
    detail = {"brokers": ", ".join(map(str, sorted(waiting)))} if waiting else {}
    return Condition("unconfirmed", "bus", is_bad, BOUND_MS, detail)


def _is_secondary(found: SiteKeysOfBus) -> bool:
    text = found.configs.get(SITE_EPOCH_KEY)
    return bool(text) and parse_site_epoch(text or "").secondary == found.cluster_id
