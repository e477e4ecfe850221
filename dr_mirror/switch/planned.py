"""A planned switch: both sites answer, nothing is lost.

In: both sites, the mirror's status. Out: a `SwitchStatement`; steps are reported as they are done.
Core: `dr_mirror.switch.plan.switch`. Never: a step that cannot be repeated: after a kill at any
moment the same command finishes what was begun.

1. checks · 2. the site epoch at the former primary, in one request with the fence of its topics,
which closes them to records and to groups' commits · 3. every leader there confirms the fence and
where its log ends · 4. the mirror drains · 5. every broker there confirms that it takes no commits,
and groups' offsets are copied a last time · 6. the site epoch at the new primary, in one request
with the opening of its topics · 7. the former primary takes commits again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.client.model import TopicPartition
from bus.contracts.mirror import REFUSED_COMMITS_KEY, SOURCE_CLUSTER_KEY
from bus.contracts.mirror_status import MirrorStatus
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.domain.site_epochs import SiteEpochs
from bus.runtime.wall_clock import now_ms
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.report.plan.switch_report import (
    PLANNED,
    SwitchStatement,
    drained_partitions,
    statement,
)
from dr_mirror.report.report_file import ReportFile
from dr_mirror.status.status_file import FRESH_MS
from dr_mirror.switch.plan.switch import (
    Obstacle,
    PartitionEnd,
    TopicHandover,
    handover_obstacles,
    is_still_fenced,
    status_obstacles,
    topic_handovers,
    undrained,
)
from dr_mirror.switch.site_client import SiteClient, mirror_of, retried
from dr_mirror.switch.steps import (
    POLL_S,
    OnStep,
    SwitchLimits,
    SwitchRefused,
    SwitchUnfinished,
    check_serves_mirror,
    claim_all,
    named,
    refresh,
)
from dr_mirror.topics.generations import generation_of
from dr_mirror.topics.topics import MirrorTopic

GROUPS_TIMEOUT_S = 10.0
COMMITS_ON_THEIR_WAY_MS = 500
"""A commit that was taken before the fence is on all its replicas after this."""
MAX_ROUNDS = 5
"""So often topics that were made meanwhile are drained as well, before the switch gives up."""
LEADERS_EVERY_S = 0.5
"""How often leaders are asked again while one does not answer."""

ReadStatus = Callable[[], MirrorStatus]
Ends = dict[TopicPartition, PartitionEnd]


class PlannedSwitch:
    """`run` once. Invariant: every step is harmless where it was done before."""

    def __init__(
        self,
        former: SiteClient,
        new: SiteClient,
        *,
        selection: TopicSelection,
        limits: SwitchLimits,
        read_status: ReadStatus,
        report: Callable[[int], ReportFile],
        on_step: OnStep,
    ) -> None:
        self._former = former
        self._new = new
        self._selection = selection
        self._limits = limits
        self._read_status = read_status
        self._report = report
        self._on_step = on_step
        self._generation = 0

    def run(self, epochs: SiteEpochs, who: str) -> SwitchStatement:
        """Switch, or finish a switch. Raises SwitchRefused, SwitchUnfinished, EpochRefused,
        BusError, OSError."""
        new_id, epoch = self._new.cluster_id, epochs.newest
        if epoch is None or epoch.primary != new_id:
            kind = EpochKind.CANCELLED if epochs.is_handed_over else EpochKind.PLANNED
            self._check(epochs.copied_from, kind)
            epoch = epochs.next(kind, new_id, now_ms(), who)
        self._on_step("begun", epoch.text)
        self._change(self._former, epoch, {})
        begun = time.monotonic()
        notes: list[str] = []
        is_open = epochs.of(new_id) == epoch
        if epoch.kind is EpochKind.CANCELLED:
            self._check_never_opened()
        elif not is_open:
            self._hand_over(epoch, notes)
        self._open(epoch)
        took_ms = -1 if is_open else int((time.monotonic() - begun) * 1000)
        self._take_commits_again(epoch)
        return self._finish(epoch, took_ms, notes)

    # -- 1. checks ------------------------------------------------------------------------

    def _check(self, copied_from: str, kind: EpochKind) -> None:
        """Raises SwitchRefused."""
        if kind is EpochKind.CANCELLED:
            self._check_never_opened()
            return
        for site in (self._former, self._new):
            check_serves_mirror(site)
        status = self._read_status()
        former, new, topics = self._topics()
        found = status_obstacles(
            status, copied_from=copied_from, age_ms=now_ms() - status.at_ms, max_age_ms=FRESH_MS,
            max_lag_s=self._limits.max_lag_s,
        )  # fmt: skip
        found += handover_obstacles(former, new, topics)
        found += [Obstacle("it is not copied yet", name) for name in self._not_copied(former, new)]
        if found:
            raise SwitchRefused(found)

    def _check_never_opened(self) -> None:
        """A switch can be given up while its new primary, here the former one, has only copies."""
        _, _, topics = self._topics()
        opened = [each.topic for each in topics if each.fence]
        if opened:
            raise SwitchRefused([
                Obstacle(f"{self._former.name} takes records already: finish that switch first, "
                         f"with --to {self._former.name}", name) for name in opened
            ])  # fmt: skip
        self._on_step("cancelled", "")

    def _topics(
        self,
    ) -> tuple[dict[str, MirrorTopic], dict[str, MirrorTopic], list[TopicHandover]]:
        former, new = self._former.topics(), self._new.topics()
        self._generation = max(
            (generation_of(topic.configs) for topic in former.values()), default=0
        )
        topics = topic_handovers(
            former, new, former_id=self._former.cluster_id, new_id=self._new.cluster_id
        )
        return former, new, topics

    def _not_copied(
        self, former: Mapping[str, MirrorTopic], new: Mapping[str, MirrorTopic]
    ) -> list[str]:
        return [name for name in former if self._selection.selects(name) and name not in new]

    # -- 2. to 5. -------------------------------------------------------------------------

    def _hand_over(self, epoch: SiteEpoch, notes: list[str]) -> None:
        """Again for topics that somebody has made meanwhile, until there are none."""
        ends: Ends | None = None
        for _ in range(MAX_ROUNDS):
            topics = self._fence(epoch)
            partitions = [
                TopicPartition(each.topic, index)
                for each in topics
                for index in range(each.partitions)
            ]
            if ends is not None and ends.keys() >= set(partitions):
                break
            ends = self._drained(partitions)
            drained_ms = now_ms()
            self._wait_until_commits_are_refused([each.topic for each in topics], epoch)
            self._copy_groups(max(drained_ms, now_ms() + COMMITS_ON_THEIR_WAY_MS), notes)
        else:
            raise self._unfinished("an end of new topics: somebody makes them all the time")
        self._report(epoch.number).append(statement(
            PLANNED, epoch, now_ms(), drained_partitions({p: e.end for p, e in ends.items()})
        ))  # fmt: skip

    def _drained(self, partitions: list[TopicPartition]) -> Ends:
        """Where the fenced logs end, once the new primary holds all of them."""
        ends = self._confirmed(partitions)
        self._on_step("fenced", f"{len(partitions)} partitions")
        while True:
            self._drain(partitions, ends)
            again = self._confirmed(partitions)
            if is_still_fenced(ends, again):
                break
            ends = again
        self._on_step("drained", f"{len(partitions)} partitions")
        return ends

    def _fence(self, epoch: SiteEpoch) -> list[TopicHandover]:
        """Until no topic is left: a mirror may have made one meanwhile."""
        deadline = time.monotonic() + self._limits.timeout_s
        change: ConfigChanges = [
            *mirror_of(self._new.cluster_id),
            (REFUSED_COMMITS_KEY, AlterConfigOp.SET, str(epoch.number)),
        ]
        while True:
            former, new, topics = self._topics()
            open_ones = {each.topic: change for each in topics if each.fence}
            missing = self._not_copied(former, new)
            if not open_ones and not missing:
                return topics
            self._change(self._former, epoch, open_ones)
            if missing and time.monotonic() > deadline:
                raise self._unfinished(f"topics that the mirror has not made yet: {missing}")
            time.sleep(POLL_S)

    def _confirmed(self, partitions: list[TopicPartition]) -> Ends:
        """Where each fenced log ends, by its leader's own word, which it gives under the fence
        only."""
        claims = claim_all(
            self._former, partitions, self._new.cluster_id, self._generation,
            accepts=lambda *_: True,
            unfinished=lambda left: self._unfinished(
                f"leaders that do not confirm the fence: {left}"
            ),
            limits=self._limits, on_step=self._on_step,
        )  # fmt: skip
        return {
            partition: PartitionEnd(one.leader_epoch, one.log_end_offset)
            for partition, one in claims.items()
        }

    def _drain(self, partitions: list[TopicPartition], ends: Ends) -> None:
        deadline = time.monotonic() + self._limits.timeout_s
        leaders_at = time.monotonic() + LEADERS_EVERY_S
        before = -1
        while True:
            waiting = undrained(ends, self._new.leaders.ends(partitions), partitions)
            if not waiting:
                return
            missing = sum(max(one.missing, 0) for one in waiting)
            if missing != before:
                self._on_step("draining", f"{len(waiting)} partitions, {missing} records")
                deadline, before = time.monotonic() + self._limits.timeout_s, missing
            if time.monotonic() > deadline:
                left = [f"{one.partition.topic}-{one.partition.partition}: {one.missing}"
                        for one in waiting]  # fmt: skip
                raise self._unfinished(f"records that do not arrive: {named(left)}")
            time.sleep(POLL_S)
            if time.monotonic() > leaders_at:
                refresh(self._new, self._on_step)
                leaders_at = time.monotonic() + LEADERS_EVERY_S

    def _wait_until_commits_are_refused(self, topics: list[str], epoch: SiteEpoch) -> None:
        """Every broker may coordinate groups; one that has not heard of the fence takes commits."""
        deadline = time.monotonic() + self._limits.timeout_s
        while True:
            waiting = self._former.admin.brokers_without(
                self._former.view, topics, REFUSED_COMMITS_KEY, str(epoch.number)
            )
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise self._unfinished(
                    f"brokers that do not refuse groups' commits yet: {sorted(waiting)}"
                )
            time.sleep(POLL_S)
            refresh(self._former, self._on_step)

    def _copy_groups(self, since_ms: int, notes: list[str]) -> None:
        """Wait until the mirror has copied what groups had committed at this time."""
        deadline = time.monotonic() + GROUPS_TIMEOUT_S
        while (status := self._read_status()).groups_copied_ms < since_ms:
            if time.monotonic() > deadline:
                notes.append("groups' offsets were not copied a last time: the mirror did not say "
                             f"so within {GROUPS_TIMEOUT_S:g} s")  # fmt: skip
                return
            time.sleep(POLL_S)
        for group, reason in sorted(status.groups_not_copied.items()):
            notes.append(f"group {group}: its offsets are not copied: {reason}")
        self._on_step("groups", "")

    # -- 6. and 7. ------------------------------------------------------------------------

    def _open(self, epoch: SiteEpoch) -> None:
        _, _, topics = self._topics()
        change: ConfigChanges = [
            (SOURCE_CLUSTER_KEY, AlterConfigOp.DELETE, None),
            (REFUSED_COMMITS_KEY, AlterConfigOp.DELETE, None),
            (TARGET_CLUSTER_KEY, AlterConfigOp.SET, self._former.cluster_id),
        ]
        closed = {each.topic: change for each in topics if each.open and not each.fence}
        timeout_s = self._limits.timeout_s
        retried(lambda: self._new.change(epoch, closed, confirms=True), timeout_s)
        self._on_step("opened", f"{len(topics)} topics")

    def _take_commits_again(self, epoch: SiteEpoch) -> None:
        """Those who read at the former primary go on there; with the next site epoch the refusal
        would end by itself."""
        former, _, _ = self._topics()
        change: ConfigChanges = [(REFUSED_COMMITS_KEY, AlterConfigOp.DELETE, None)]
        closed = {
            name: change for name, one in former.items() if REFUSED_COMMITS_KEY in one.configs
        }
        self._change(self._former, epoch, closed)

    def _finish(self, epoch: SiteEpoch, took_ms: int, notes: list[str]) -> SwitchStatement:
        former, new, topics = self._topics()
        left = self._not_copied(former, new) + [each.topic for each in topics if each.fence]
        notes += [f"topic {name} was made at the former primary during the switch" for name in left]
        found = self._report(epoch.number).statement_of(PLANNED)
        if found is None and epoch.kind is EpochKind.PLANNED:
            notes.append("the report of what was drained is on the machine that began the switch")
        ends = found.partitions if found is not None else ()
        return statement(PLANNED, epoch, now_ms(), ends, took_ms=took_ms, notes=notes)

    # -- all ------------------------------------------------------------------------------

    def _change(
        self, site: SiteClient, epoch: SiteEpoch, topics: Mapping[str, ConfigChanges]
    ) -> None:
        retried(lambda: site.change(epoch, topics), self._limits.timeout_s)

    def _unfinished(self, what: str) -> SwitchUnfinished:
        return SwitchUnfinished(
            f"the switch has begun and is not finished; {self._former.name} takes no records, "
            f"{self._new.name} none yet. It waits for {what}. Remove the cause and run the same "
            f"command again, or give it up with --to {self._former.name}"
        )
