"""Whether an operator may declare a site the primary. Pure.

In: what both clusters have answered, as far as they answer. Out: why not, or empty. Never: yes for
a cluster that the other one's newer epoch calls the secondary.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts.site_epoch import SiteEpoch


@dataclass(frozen=True, slots=True)
class SiteStanding:
    """What one cluster has answered. `waiting`: brokers whose processes are not confirmed; None:
    nobody ever confirmed any, so that none waits."""

    cluster_id: str
    epoch: SiteEpoch | None
    waiting: frozenset[int] | None


def force_obstacle(site: SiteStanding, other: SiteStanding | None) -> str:
    """Why an operator may not declare `site` the primary; empty: nothing is known against it.
    `other` is None where it does not answer, which is what the declaration is for."""
    held = site.epoch
    if held is not None and held.primary != site.cluster_id:
        return (
            f"it is the secondary since site epoch {held.number} ({held.kind.value}, by "
            f"{held.who}); to make it the primary: databus mirror switch --to"
        )
    newer = None if other is None else other.epoch
    number = 0 if held is None else held.number
    if newer is not None and newer.number > number and newer.primary != site.cluster_id:
        return (
            f"the other site is the primary since site epoch {newer.number} ({newer.kind.value}, "
            f"by {newer.who}), which this one does not know yet; see: databus mirror switch --back"
        )
    if site.waiting is None:
        return "no mirror has run with it yet: it waits for nobody"
    return ""
