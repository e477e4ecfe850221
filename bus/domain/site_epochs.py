"""Which of two sites is the primary, and which way the mirror copies. Pure.

In: the site epochs that both clusters hold, None where one has none or does not answer. Out:
cluster ids, the next epoch, what each cluster is told about the other one's. Never: two primaries
in one site epoch; a confirmation of a cluster that the other one's newer epoch calls the secondary.

Every new number but that of `REJOINED` makes the other site the primary, so that a number never
stands for two of them; `REJOINED` is taken at the secondary first, where it meets a switch.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.contracts.site_epoch import EpochKind, SiteEpoch


@dataclass(frozen=True, slots=True)
class SiteClusters:
    """The two clusters of the settings, by id. Before the first site epoch `source` is primary."""

    source: str
    target: str

    def other(self, cluster_id: str) -> str:
        """The one that is not `cluster_id`."""
        return self.target if cluster_id == self.source else self.source


@dataclass(frozen=True, slots=True)
class SiteEpochs:
    """What both clusters hold; the order is that of the settings."""

    clusters: SiteClusters
    source: SiteEpoch | None
    target: SiteEpoch | None

    @property
    def newest(self) -> SiteEpoch | None:
        """The one with the largest number."""
        held = [each for each in (self.source, self.target) if each is not None]
        return max(held, key=lambda each: each.number, default=None)

    @property
    def primary(self) -> str:
        """The cluster that the newest epoch calls so, whether or not it knows yet."""
        return self.clusters.source if self.newest is None else self.newest.primary

    @property
    def is_foreign(self) -> bool:
        """Whether an epoch is about other clusters than those of the settings."""
        ours = {self.clusters.source, self.clusters.target}
        held = [each for each in (self.source, self.target) if each is not None]
        return any({each.primary, each.secondary} != ours for each in held)

    def of(self, cluster_id: str) -> SiteEpoch | None:
        """The one that this cluster holds."""
        return self.source if cluster_id == self.clusters.source else self.target

    @property
    def copied_from(self) -> str:
        """The cluster that a mirror reads.

        A new primary takes its epoch last: until then what the former one holds is still copied.
        """
        newest = self.newest
        if newest is None:
            return self.clusters.source
        held = self.of(newest.primary)
        if held is not None and held.primary == newest.primary:
            return newest.primary
        return self.clusters.other(newest.primary)

    @property
    def is_handed_over(self) -> bool:
        """Whether a planned switch has begun whose new primary does not know it yet: it can be
        given up, since the former one holds all that both have."""
        newest = self.newest
        is_planned = newest is not None and newest.kind is EpochKind.PLANNED
        return is_planned and newest is not None and self.copied_from != newest.primary

    def next(self, kind: EpochKind, primary: str, at_ms: int, who: str) -> SiteEpoch:
        """One above all that are known."""
        number = 1 if self.newest is None else self.newest.number + 1
        return SiteEpoch(number, kind, primary, self.clusters.other(primary), at_ms, who)


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


def due_confirmations(epochs: SiteEpochs) -> list[Confirm | FormerPrimaryFence]:
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
