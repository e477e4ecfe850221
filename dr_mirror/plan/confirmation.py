"""What each of two clusters is told about the other one's site epoch. Pure.

In: the site epochs that both have answered with, at one time. Out: who is confirmed as the primary,
who has to take a newer epoch. Never: a confirmation while one of them was not heard, or of a
cluster that the other one's newer epoch calls the secondary.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts.site_epoch import SiteEpoch
from dr_mirror.plan.site_epoch import SiteEpochs


@dataclass(frozen=True, slots=True)
class Confirm:
    """The cluster's site epoch (0: it has none) is the newest, or what follows it changes nothing
    of who is the primary: it."""

    cluster_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class FormerPrimaryFence:
    """The cluster has to take this site epoch, in which it is the secondary."""

    cluster_id: str
    epoch: SiteEpoch


def due(epochs: SiteEpochs) -> list[Confirm | FormerPrimaryFence]:
    """Both clusters have answered with these. A new primary is told nothing before a switch has
    given it the epoch: its topics are opened by the switch."""
    clusters, newest = epochs.clusters, epochs.newest
    if epochs.is_foreign:
        return []
    if newest is None:
        return [Confirm(clusters.source, 0)]
    found: list[Confirm | FormerPrimaryFence] = []
    primary, secondary = epochs.of(newest.primary), epochs.of(newest.secondary)
    if primary is not None and primary.primary == newest.primary:
        found.append(Confirm(newest.primary, primary.number))
    if secondary is None or secondary.number < newest.number:
        found.append(FormerPrimaryFence(newest.secondary, newest))
    return found


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
