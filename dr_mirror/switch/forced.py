"""A forced switch: the primary does not answer, the other site takes over as it is.

In: the new primary, the mirror's last status. Out: a `SwitchStatement` that says what is missing as
far as it is known. Core: `dr_mirror.switch.plan.forced`. Never: a question to the former primary,
and never an end that another mirror can still move.

1. what was heard of the former primary last goes into the report · 2. the site epoch · 3. a newer
generation fences the mirror, every leader says where its log ends · 4. transactions that the former
primary left open are aborted · 5. the ends go into the report · 6. the topics are opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_status import MirrorStatus
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.domain.site_epochs import SiteEpochs
from bus.errors import ErrorCode
from bus.runtime.wall_clock import now_ms
from dr_mirror.report.plan.switch_report import FORCED, HEARD, SwitchStatement, statement
from dr_mirror.report.report_file import ReportFile
from dr_mirror.switch.plan.forced import (
    OpenTransaction,
    abort_marker,
    forced_partitions,
    heard_partitions,
    open_transactions,
)
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.site_client import SiteClient, retried
from dr_mirror.switch.steps import (
    Claims,
    OnStep,
    SwitchLimits,
    SwitchRefused,
    SwitchUnfinished,
    check_serves_mirror,
    claim_all,
    is_replicated,
    partitions_of,
)
from dr_mirror.topics.generations import GENERATION_KEY, next_generation
from dr_mirror.topics.topics import MirrorTopic


class ForcedSwitch:
    """`run` once. Invariant: what the report has said is not asked again."""

    def __init__(
        self,
        new: SiteClient,
        *,
        former_id: str,
        former_name: str,
        limits: SwitchLimits,
        status: MirrorStatus | None,
        report: Callable[[int], ReportFile],
        on_step: OnStep,
    ) -> None:
        self._new = new
        self._former_id = former_id
        self._former_name = former_name
        self._limits = limits
        self._status = status
        self._report = report
        self._on_step = on_step

    def run(self, epochs: SiteEpochs, who: str) -> SwitchStatement:
        """Switch, or finish a forced switch. Raises SwitchRefused, SwitchUnfinished, EpochRefused,
        BusError, OSError."""
        epoch = epochs.newest
        if epoch is None or epoch.primary != self._new.cluster_id:
            self._check()
            epoch = epochs.next(EpochKind.FORCED, self._new.cluster_id, now_ms(), who)
        report = self._report(epoch.number)
        heard = heard_partitions(self._status, self._former_id)
        report.append(statement(HEARD, epoch, now_ms(), heard))
        begun = time.monotonic()
        self._change(epoch, {})
        self._on_step("begun", epoch.text)
        found = report.statement_of(FORCED) or self._take_over(epoch, report)
        topics = self._mirrored()
        change: ConfigChanges = [
            (SOURCE_CLUSTER_KEY, AlterConfigOp.DELETE, None),
            (TARGET_CLUSTER_KEY, AlterConfigOp.SET, self._former_id),
        ]
        self._change(epoch, dict.fromkeys(topics, change), confirms=True)
        self._on_step("opened", f"{len(topics)} topics")
        took_ms = int((time.monotonic() - begun) * 1000)
        return statement(
            FORCED, epoch, found.at_ms, found.partitions, took_ms=took_ms, notes=found.notes
        )

    def _check(self) -> None:
        check_serves_mirror(self._new)
        if not self._mirrored():
            raise SwitchRefused([Obstacle(f"no topic of {self._new.name} is mirrored from "
                                          f"{self._former_name} ({self._former_id})")])  # fmt: skip

    def _mirrored(self) -> dict[str, MirrorTopic]:
        return {
            name: topic
            for name, topic in self._new.topics().items()
            if topic.configs.get(SOURCE_CLUSTER_KEY) == self._former_id
        }

    # -- 3. to 5. -------------------------------------------------------------------------

    def _take_over(self, epoch: SiteEpoch, report: ReportFile) -> SwitchStatement:
        topics = self._mirrored()
        generation = next_generation(now_ms(), (each.configs for each in topics.values()))
        change = [(GENERATION_KEY, AlterConfigOp.SET, str(generation))]
        self._change(epoch, dict.fromkeys(topics, change))
        claims = claim_all(
            self._new, partitions_of(topics), self._former_id, generation, accepts=is_replicated,
            unfinished=self._unfinished, limits=self._limits, on_step=self._on_step,
        )  # fmt: skip
        self._on_step("claimed", f"{len(claims)} partitions")
        aborted, notes = self._abort_transactions(claims, generation)
        ends = {partition: int(one.log_end_offset) for partition, one in claims.items()}
        heard = report.statement_of(HEARD)
        found = forced_partitions(ends, heard.partitions if heard is not None else (), aborted)
        return report.append(statement(FORCED, epoch, now_ms(), found, notes=notes))

    def _abort_transactions(
        self, claims: Claims, generation: int
    ) -> tuple[list[OpenTransaction], list[str]]:
        """A marker of its producer ends each: without it read_committed consumers would wait for
        ever."""
        found = [
            one
            for partition, answer in self._new.leaders.producers(list(claims)).items()
            for one in open_transactions(partition, answer)
        ]
        ends = {partition: int(one.log_end_offset) for partition, one in claims.items()}
        aborted, notes = [], []
        for one in found:
            end = ends[one.partition]
            result = self._new.leaders.append(
                one.partition, self._former_id, generation, end,
                abort_marker(one, end, now_ms()),
            )  # fmt: skip
            if result.error_code:
                code = ErrorCode.of(result.error_code).name
                notes.append(f"{one.text} could not be aborted: {code} {result.error_message}")
                continue
            ends[one.partition] = result.log_end_offset
            aborted.append(one)
        return aborted, notes

    # -- all ------------------------------------------------------------------------------

    def _change(
        self, epoch: SiteEpoch, topics: dict[str, ConfigChanges], *, confirms: bool = False
    ) -> None:
        timeout_s = self._limits.timeout_s
        retried(lambda: self._new.change(epoch, topics, confirms=confirms), timeout_s)

    def _unfinished(self, left: str) -> SwitchUnfinished:
        return SwitchUnfinished(
            f"{self._new.name} has the site epoch and no open topic yet: leaders that do not "
            f"answer: {left}. Start their brokers and run the same command again"
        )
