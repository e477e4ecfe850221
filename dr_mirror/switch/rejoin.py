"""The way back of a former primary: what only it has goes into files, then it becomes a mirror.

In: both sites, the report of the forced switch. Out: a `SwitchStatement` with what was missing, to
the record. Core: `dr_mirror.switch.plan.diverged_records`. Never: a log that is cut before its file
is on the device and its records' ids are on the former primary's `control.mirror-tails`, or while
another site epoch is in force at the primary.

1. the former primary takes the site epoch, and its topics are bound to the primary · 2. per
partition: where the logs part, its own tail into a file, the ids of its rows, the cut; keys of
topics say it to those whose positions are not on the bus · 3. groups' offsets go back to the cut ·
4. a site epoch that says so, at the former primary first; the mirror then copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bus.client.admin.config_resources import AlterConfigOp, ConfigChanges
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.contracts import headers
from bus.contracts.diverged_ranges import DivergedRange, encode_diverged_range
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_truncations import (
    TRUNCATIONS_KEY,
    LogTruncation,
    TopicTruncations,
    all_done,
    parse_truncations,
    truncations_text,
    with_truncation,
)
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.contracts.topics import CONTROL_MIRROR_TAILS, TOPICS
from bus.domain.site_epochs import SiteEpochs
from bus.errors import BusError, ErrorCode
from bus.protocol.generated.mirror_append import PartitionMirrorAppendResult
from bus.records.record import Record
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.proof.block_comparison import BlockComparison
from dr_mirror.proof.replica_endpoints import EndpointError, ReplicaEndpoint
from dr_mirror.proof.verify import EndpointReader
from dr_mirror.report.plan.switch_report import (
    FORCED,
    REJOINED,
    TAIL,
    PartitionStatement,
    SwitchStatement,
    statement,
)
from dr_mirror.report.report_file import ReportFile
from dr_mirror.switch.diverged_record_file import DivergedRecordFile
from dr_mirror.switch.plan.diverged_records import common_end, diverged_parts, has_rows
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.site_client import SiteClient, mirror_of, retried
from dr_mirror.switch.steps import (
    AcceptsClaim,
    Claims,
    OnStep,
    SwitchLimits,
    SwitchRefused,
    SwitchUnfinished,
    check_serves_mirror,
    claim_all,
    is_replicated,
    named,
    partitions_of,
)
from dr_mirror.topics.generations import GENERATION_KEY, next_generation
from dr_mirror.topics.topics import MirrorTopic

BLOCK_OFFSETS = 10_000
PRIMARY = 0
"""The one that the former primary is compared with."""
COMPARED_OFFSETS = 100_000
"""So many offsets before the end at the switch are compared; all where no report says that end."""


class Rejoin:
    """`run` once. Invariant: every step is harmless where it was done before."""

    def __init__(
        self,
        former: SiteClient,
        primary: SiteClient,
        *,
        former_bus: BusSettings,
        primary_bus: BusSettings,
        selection: TopicSelection,
        limits: SwitchLimits,
        report: Callable[[int], ReportFile],
        diverged_folder: Path,
        on_step: OnStep,
    ) -> None:
        self._former = former
        self._primary = primary
        self._buses = former_bus, primary_bus
        self._selection = selection
        self._limits = limits
        self._report_of = report
        self._diverged_folder = diverged_folder
        self._on_step = on_step
        self._generation = 0

    def run(self, epochs: SiteEpochs, who: str) -> SwitchStatement:
        """Bring the former primary back. Raises SwitchRefused, SwitchUnfinished, EpochRefused,
        BusError, OSError."""
        epoch = epochs.newest
        primary_id = self._primary.cluster_id
        if epoch is None or epochs.copied_from != primary_id or epoch.primary != primary_id:
            raise SwitchRefused([Obstacle(f"{self._primary.name} is not the primary")])
        if epoch.kind not in (EpochKind.FORCED, EpochKind.REJOINED):
            raise SwitchRefused([Obstacle("the last switch was not forced: nothing has parted")])
        if epoch.kind is EpochKind.FORCED:
            following = epochs.next(EpochKind.REJOINED, primary_id, now_ms(), who)
            done = self._truncate_all(epoch, following)
        else:
            following, done = epoch, None
        retried(lambda: self._former.change(following, {}), self._limits.timeout_s)
        retried(lambda: self._primary.change(following, {}), self._limits.timeout_s)
        self._on_step("rejoined", following.text)
        return done or statement(REJOINED, following, now_ms(), ())

    def _truncate_all(self, epoch: SiteEpoch, following: SiteEpoch) -> SwitchStatement:
        check_serves_mirror(self._former)
        report = self._report_of(epoch.number)
        forced = report.statement_of(FORCED)
        opened = {
            TopicPartition(one.topic, one.partition): one.end
            for one in (forced.partitions if forced is not None else ())
        }
        topics = self._bind(epoch, opened)
        partitions = partitions_of(topics)
        claims = self._claim(partitions, is_replicated)
        ends = asyncio.run(self._common_ends(claims, opened, topics))
        self._publish_truncations(epoch, topics, claims, ends)
        for partition, end in ends.items():
            is_compacted = topics[partition.topic].is_compacted
            self._truncate(epoch, report, partition, claims[partition], end, is_compacted)
        self._claim(partitions, partial(_is_truncated, ends))
        self._finish_truncations(epoch, topics)
        notes = self._set_groups_back(ends)
        return report.append(statement(
            REJOINED, epoch, now_ms(), self._final(report, ends, opened), notes=notes
        ))  # fmt: skip

    # -- 1. -------------------------------------------------------------------------------

    def _bind(self, epoch: SiteEpoch, opened: dict[TopicPartition, int]) -> dict[str, MirrorTopic]:
        """The topics that both sites have and the primary has opened, read-only from now on."""
        former, primary = self._former.topics(), self._primary.topics()
        found = {
            name: topic
            for name, topic in former.items()
            if self._selection.selects(name) and self._is_open(primary.get(name))
        }
        closed = sorted(
            name
            for name in former
            if self._selection.selects(name) and self._is_a_copy(primary.get(name))
        )
        if closed:
            raise SwitchUnfinished(
                f"{self._primary.name} says that it still copies {named(closed)}: the broker that "
                "answered is behind, or the forced switch was interrupted. Nothing was cut; run "
                f"the same command again, or finish that one: --force --to {self._primary.name}"
            )
        unknown = [
            Obstacle("it is compacted and no report says where the sites parted: free and delete "
                     f"it at {self._former.name}; the mirror copies it then", name)
            for name, topic in found.items()
            if topic.is_compacted and TopicPartition(name, 0) not in opened
        ]  # fmt: skip
        unknown += [
            Obstacle(f"{topic.partitions} partitions where the primary has fewer", name)
            for name, topic in found.items()
            if topic.partitions > primary[name].partitions
        ]
        if unknown:
            raise SwitchRefused(unknown)
        self._generation = next_generation(now_ms(), (each.configs for each in found.values()))
        change: ConfigChanges = [
            *mirror_of(self._primary.cluster_id),
            (GENERATION_KEY, AlterConfigOp.SET, str(self._generation)),
        ]
        changes = dict.fromkeys(found, change)
        retried(lambda: self._former.change(epoch, changes), self._limits.timeout_s)
        self._on_step("bound", f"{len(found)} topics")
        return found

    def _is_open(self, topic: MirrorTopic | None) -> bool:
        return topic is not None and not topic.configs.get(SOURCE_CLUSTER_KEY)

    def _is_a_copy(self, topic: MirrorTopic | None) -> bool:
        source = topic.configs.get(SOURCE_CLUSTER_KEY) if topic is not None else None
        return source == self._former.cluster_id

    # -- 2. -------------------------------------------------------------------------------

    def _claim(
        self, partitions: list[TopicPartition], accepts: AcceptsClaim
    ) -> Claims:
        """Each leader's answer once every replica has what its log holds."""
        return claim_all(
            self._former, partitions, self._primary.cluster_id, self._generation, accepts=accepts,
            unfinished=lambda left: SwitchUnfinished(
                f"partitions of {self._former.name} that do not answer: {left}. Start their "
                "brokers and run the same command again"
            ),
            limits=self._limits, on_step=self._on_step,
        )  # fmt: skip

    async def _common_ends(
        self,
        claims: Claims,
        opened: dict[TopicPartition, int],
        topics: dict[str, MirrorTopic],
    ) -> dict[TopicPartition, int]:
        """Where the logs part, by the report and by comparing batches before and behind it."""
        former = EndpointReader("former", self._buses[0])
        primary = EndpointReader("primary", self._buses[1])
        found = {}
        try:
            await asyncio.gather(former.open(), primary.open())
            ends = self._primary.leaders.ends(list(claims))
            for partition, claim in claims.items():
                at_switch = opened.get(partition)
                differs_at = -1
                if not topics[partition.topic].is_compacted:
                    differs_at = await _differs_at(former, primary, partition, at_switch)
                if partition not in ends:
                    raise SwitchUnfinished(f"{partition}: no leader at {self._primary.name}")
                found[partition] = common_end(
                    claim.log_end_offset, ends[partition], at_switch, differs_at
                )
        finally:
            former.close()
            primary.close()
        self._on_step("compared", f"{len(found)} partitions")
        return found

    def _publish_truncations(
        self,
        epoch: SiteEpoch,
        topics: dict[str, MirrorTopic],
        claims: Claims,
        ends: dict[TopicPartition, int],
    ) -> None:
        """Before anything is cut, so that a command that is repeated knows it; applications wait
        for `_finish_truncations`."""
        found: dict[str, dict[int, LogTruncation]] = {}
        for partition, end in ends.items():
            claim = claims[partition]
            truncation = LogTruncation(_truncate_at(claim, end), claim.log_end_offset)
            if truncation.former_end > truncation.cut:
                found.setdefault(partition.topic, {})[partition.partition] = truncation
        self._write_truncations(epoch, {
            name: with_truncation(_truncations_of(topics[name]), epoch.number, truncations)
            for name, truncations in found.items()
        })  # fmt: skip

    def _finish_truncations(self, epoch: SiteEpoch, topics: dict[str, MirrorTopic]) -> None:
        """All is cut, and nothing copied yet: applications go back from now on."""
        held = self._former.topics()
        truncations = {name: _truncations_of(held[name]) for name in topics}
        begun = {name: all_done(one) for name, one in truncations.items() if one != all_done(one)}
        self._write_truncations(epoch, begun)

    def _write_truncations(
        self, epoch: SiteEpoch, truncations: dict[str, tuple[TopicTruncations, ...]]
    ) -> None:
        changes: dict[str, ConfigChanges] = {
            name: [(TRUNCATIONS_KEY, AlterConfigOp.SET, truncations_text(one))]
            for name, one in truncations.items()
        }
        if changes:
            retried(lambda: self._former.change(epoch, changes), self._limits.timeout_s)

    def _truncate(
        self,
        epoch: SiteEpoch,
        report: ReportFile,
        partition: TopicPartition,
        claim: PartitionMirrorAppendResult,
        end: int,
        is_compacted: bool,
    ) -> None:
        """Of a compacted partition all goes, to be copied again: its cleaner may have removed what
        the tail superseded, and without the tail these keys would have no value any more."""
        end = _truncate_at(claim, end)
        if claim.log_end_offset <= end:
            return
        name = f"{partition.topic}-{partition.partition}"
        with DivergedRecordFile(self._diverged_folder / f"{epoch.number:06d}", partition) as file:
            file.add_range(self._former.leaders.fetch, end, claim.log_end_offset)
            file.finish()
        if has_rows(partition.topic):
            self._publish_ids(epoch, file.path)
        found = PartitionStatement(
            topic=partition.topic, partition=partition.partition, end=end,
            former_end=claim.log_end_offset, records=file.records, file=str(file.path),
        )  # fmt: skip
        report.append(statement(TAIL, epoch, now_ms(), [found]))
        if self._primary.admin.site_epoch() != epoch:
            raise SwitchUnfinished(f"{self._primary.name} has another site epoch by now")
        at = int(claim.log_start_offset) if is_compacted else end
        result = self._former.leaders.truncate(
            partition, self._primary.cluster_id, self._generation, claim, at
        )
        if result.error_code:
            code = ErrorCode.of(result.error_code).name
            raise SwitchUnfinished(
                f"{name} was not cut: {code} {result.error_message or ''}; its tail is in "
                f"{file.path}. Run the same command again"
            )
        self._on_step("cut", f"{name}: {file.records} records are in {file.path}")

    def _publish_ids(self, epoch: SiteEpoch, path: Path) -> None:
        """To the former primary, for whose store has rows of these records. Raises BusError,
        OSError."""
        with path.open("rb") as lines:
            for part in diverged_parts(lines, epoch.number):
                say = partial(self._former.produce, CONTROL_MIRROR_TAILS, [_diverged_message(part)])
                retried(say, self._limits.timeout_s)

    # -- 3. and 4. ------------------------------------------------------------------------

    def _set_groups_back(self, ends: dict[TopicPartition, int]) -> list[str]:
        """What could not be set back."""
        notes = []
        groups = self._former.admin.groups(self._former.view)
        for group, (node, committed) in sorted(groups.items()):
            back = {
                partition: OffsetAndMetadata(ends[partition], one.metadata)
                for partition, one in committed.items()
                if partition in ends and one.offset > ends[partition]
            }
            try:
                if back:
                    self._former.admin.commit(self._former.view, group, node, back)
            except BusError as error:
                notes.append(f"group {group} stands behind the cut: {error}; stop its members and "
                             "set its offsets back")  # fmt: skip
        return notes

    def _final(
        self,
        report: ReportFile,
        ends: dict[TopicPartition, int],
        opened: dict[TopicPartition, int],
    ) -> list[PartitionStatement]:
        """The tails as they were said, over all runs of the command; the rest had none."""
        truncated = {
            TopicPartition(one.topic, one.partition): one
            for found in report.read()
            if found.kind == TAIL
            for one in found.partitions
        }
        return [
            truncated.get(partition) or PartitionStatement(
                topic=partition.topic, partition=partition.partition, end=end, former_end=end,
                records=0,
            )
            for partition, end in {**opened, **ends}.items()
        ]  # fmt: skip


def _diverged_message(part: DivergedRange) -> Record:
    schema = [(headers.SCHEMA, TOPICS[CONTROL_MIRROR_TAILS].schema.encode())]
    return Record(part.key, encode_diverged_range(part), schema, now_ms())


def _truncate_at(claim: PartitionMirrorAppendResult, end: int) -> int:
    """Where a log ends then: retention may have taken more than its tail."""
    return max(end, claim.log_start_offset)


def _truncations_of(topic: MirrorTopic) -> tuple[TopicTruncations, ...]:
    return parse_truncations(topic.configs.get(TRUNCATIONS_KEY, ""))


def _is_truncated(
    ends: dict[TopicPartition, int],
    partition: TopicPartition,
    claim: PartitionMirrorAppendResult,
) -> bool:
    """Whether every replica ends where it was cut. Raises SwitchUnfinished where the log goes
    on."""
    if not is_replicated(partition, claim):
        return False
    least = _truncate_at(claim, ends[partition])
    if claim.log_end_offset > least:
        raise SwitchUnfinished(
            f"{partition.topic}-{partition.partition} ends at {claim.log_end_offset} behind the "
            f"cut at {least}: run the same command again"
        )
    return True


async def _differs_at(
    former: EndpointReader,
    primary: EndpointReader,
    partition: TopicPartition,
    at_switch: int | None,
) -> int:
    """The first batch that differs; -1: none. Raises SwitchUnfinished."""
    start = 0 if at_switch is None else max(at_switch - COMPARED_OFFSETS, 0)
    try:
        endpoints = [await _leader_endpoint(reader, partition) for reader in (former, primary)]
        held = [await endpoint.held() for endpoint in endpoints]
        first = max(start, *(one.start for one in held))
        end = max(first, min(one.end for one in held))
        comparison = BlockComparison(endpoints[0], {PRIMARY: endpoints[1]}, BLOCK_OFFSETS)
        found = (await comparison.compare(first, end))[PRIMARY]
    except EndpointError as error:
        raise _not_compared(partition, str(error)) from None
    failure = comparison.source_failure or found.failure
    if failure or (found.reached < end and not found.differences):
        raise _not_compared(partition, failure)
    return min((one.first_offset for one in found.differences), default=-1)


async def _leader_endpoint(reader: EndpointReader, partition: TopicPartition) -> ReplicaEndpoint:
    name, index = partition
    [found] = [one for one in reader.view.topics[name].partitions if one.index == index]
    return await reader.endpoint(name, index, found.leader)


def _not_compared(partition: TopicPartition, why: str) -> SwitchUnfinished:
    name = f"{partition.topic}-{partition.partition}"
    return SwitchUnfinished(
        f"{name} could not be compared: {why}. Nothing was cut; run the same command again"
    )
