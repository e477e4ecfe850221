"""A lost site that was built anew becomes the primary's second site.

In: the primary, the new cluster, the report of the switch that made it the primary. Out: a site
epoch about these two clusters; a `SwitchStatement` where the switch was forced. Core:
`bus.domain.site_epochs`. Never: a cluster that holds records of its own, or a site epoch that is
not about the primary.

What only the lost cluster had is gone with it: no statement can say how much that was.
"""

from __future__ import annotations

from collections.abc import Callable

from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.runtime.wall_clock import now_ms
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.report.plan.switch_report import FORCED, REJOINED, SwitchStatement, statement
from dr_mirror.report.report_file import ReportFile
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.site_client import SiteClient, mirror_of, retried
from dr_mirror.switch.steps import (
    OnStep,
    SwitchLimits,
    SwitchRefused,
    check_serves_mirror,
    partitions_of,
)
from dr_mirror.topics.generations import GENERATION_KEY, next_generation


class NewSecondSite:
    """`run` once. Invariant: every step is harmless where it was done before."""

    def __init__(
        self,
        fresh: SiteClient,
        primary: SiteClient,
        *,
        selection: TopicSelection,
        limits: SwitchLimits,
        report: Callable[[int], ReportFile],
        on_step: OnStep,
    ) -> None:
        self._fresh = fresh
        self._primary = primary
        self._selection = selection
        self._limits = limits
        self._report_of = report
        self._on_step = on_step

    def run(self, who: str) -> SwitchStatement:
        """Take the new cluster as the second site. Raises SwitchRefused, EpochRefused, BusError,
        OSError."""
        present = self._primary_epoch()
        check_serves_mirror(self._fresh)
        following = self._following(present, who)
        topics = self._empty_topics()
        generation = next_generation(
            now_ms(), (each.configs for each in self._fresh.topics().values())
        )
        change: ConfigChanges = [
            *mirror_of(self._primary.cluster_id),
            (GENERATION_KEY, AlterConfigOp.SET, str(generation)),
        ]
        changes = dict.fromkeys(topics, change)
        retried(lambda: self._fresh.change(following, changes), self._limits.timeout_s)
        self._on_step("bound", f"{len(topics)} topics")
        retried(lambda: self._primary.change(following, {}), self._limits.timeout_s)
        self._on_step("rejoined", following.text)
        return self._report(present, following)

    def _primary_epoch(self) -> SiteEpoch:
        found = self._primary.admin.site_epoch()
        if found is None or found.primary != self._primary.cluster_id:
            raise SwitchRefused([Obstacle(
                f"{self._primary.name} is not the primary by any switch; a site that never was a "
                "primary's second site needs no command: the mirror copies to it"
            )])  # fmt: skip
        return found

    def _following(self, present: SiteEpoch, who: str) -> SiteEpoch:
        held, fresh_id = self._fresh.admin.site_epoch(), self._fresh.cluster_id
        if held is not None and {held.primary, held.secondary} != {
            self._primary.cluster_id, fresh_id,
        }:  # fmt: skip
            raise SwitchRefused([Obstacle(
                f"{self._fresh.name} has a site epoch about other clusters: {held}"
            )])  # fmt: skip
        if present.secondary == fresh_id:
            raise SwitchRefused([Obstacle(
                f"{self._fresh.name} is the cluster that {self._primary.name} knows: --back "
                "without --new-cluster, which keeps what only it has"
            )])  # fmt: skip
        if held is not None and held.kind is EpochKind.REJOINED and held.number > present.number:
            return held  # a command before this one ended half-way
        number = max(present.number, held.number if held is not None else 0) + 1
        return SiteEpoch(
            number, EpochKind.REJOINED, self._primary.cluster_id, fresh_id, now_ms(), who
        )

    def _empty_topics(self) -> list[str]:
        """Those that are there already, as `databus up` makes them. Raises SwitchRefused where one
        holds records that are not the primary's."""
        fresh, primary = self._fresh.topics(), self._primary.topics()
        found = {
            name: topic
            for name, topic in fresh.items()
            if self._selection.selects(name) and name in primary
            and topic.configs.get(SOURCE_CLUSTER_KEY) != self._primary.cluster_id
        }  # fmt: skip
        ends = self._fresh.leaders.ends(partitions_of(found))
        obstacles = [
            Obstacle(_why_not(ends.get(each)), each.topic, each.partition)
            for each in partitions_of(found)
            if ends.get(each) != 0
        ] + [
            Obstacle(f"{topic.partitions} partitions where the primary has fewer", name)
            for name, topic in found.items()
            if topic.partitions > primary[name].partitions
        ]
        if obstacles:
            raise SwitchRefused(obstacles)
        return sorted(found)

    def _report(self, present: SiteEpoch, following: SiteEpoch) -> SwitchStatement:
        note = (
            f"cluster {present.secondary} is gone: what it acknowledged and nobody else has is "
            "lost, and cannot be counted any more"
        )
        if present.kind is not EpochKind.FORCED:
            return statement(REJOINED, following, now_ms(), (), notes=[note])
        report = self._report_of(present.number)
        forced = report.statement_of(FORCED)
        partitions = forced.partitions if forced is not None else ()
        return report.append(statement(REJOINED, present, now_ms(), partitions, notes=[note]))


def _why_not(end: int | None) -> str:
    if end is None:
        return "it has no leader that answers"
    return f"it holds {end} offsets of its own: keep them elsewhere and delete the topic there"

