"""Compares what both sites hold, all the time: every replica at the target with the source.

In: the partitions that are copied. Out: proofs, differences, reconciliation records. Core:
`dr_mirror.proof.plan.partition_proof`. Never: a byte that copying waits for, a change at either
side.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from bus.client.model import TopicPartition
from bus.contracts.mirror_status import ProofStatus
from bus.records.block_digest import BlockDigest
from bus.runtime.file_thread import FileThread
from bus.runtime.tasks import in_slices, spawn
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.plan.pace import LinkLimit
from dr_mirror.copy.plan.partition_copy import NO_NODE, PartitionCopy, lag_s
from dr_mirror.proof.block_comparison import BlockComparison, ReplicaComparison
from dr_mirror.proof.log_directories import LogDirectories
from dr_mirror.proof.plan.partition_proof import (
    BLOCK_OFFSETS,
    DifferingRange,
    HeldBounds,
    PartitionProof,
    ProofKind,
    ProofTask,
)
from dr_mirror.proof.plan.proof_status import TopicProofTotals, proof_status
from dr_mirror.proof.recent_bounds import RecentBounds
from dr_mirror.proof.reconciliation_file import ReconciliationFile, ReconciliationFileError
from dr_mirror.proof.recorded_source import RecordedSource
from dr_mirror.proof.replica_endpoints import (
    DigestEndpoint,
    EndpointError,
    EndpointSilent,
    FetchEndpoint,
    ReplicaEndpoint,
    is_supported,
)

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Partitions compared at a time: a link with a long round trip is not waited for by all."""
TURNS = 8
"""Tasks of one partition before another one has its turn."""
LONGEST_TICK_S, TICKS_PER_INTERVAL = 3.0, 20
SILENT_MS = 30_000
"""A broker of the source that did not answer is asked again after this; its records speak
meanwhile."""
SAVE_S = 10.0
OPEN_TRIES, OPEN_RETRY_S = 5, 1.0
FILE_TIMEOUT_S = 10.0
RATE_S = 60.0
"""Over how long bytes per second are measured."""
COMPACTED = "compacted: the source rewrites its batches; compare by key with: databus mirror verify"
PURPOSE = "proof"


class Reconciler:
    """`run` until cancelled. Invariant: a partition of `_under_way` is in `_ready` or with one
    worker; `_proofs` has the partitions that are copied, compacted ones apart."""

    def __init__(
        self,
        context: CopyContext,
        path: Path | None,
        directories: LogDirectories,
    ) -> None:
        """`path` None: records are not kept."""
        self._context = context
        self._pace = context.settings.proof_pace
        self._path = path
        self._copies = context.copied.copies
        self._directories = directories
        self._limit = LinkLimit(context.settings.proof_bytes_per_s)
        self._recent = RecentBounds(context, directories)
        self._proofs: dict[TopicPartition, PartitionProof] = {}
        self._saved: dict[TopicPartition, PartitionProof] = {}
        self._not_compared: dict[str, str] = {}
        self._recorded_to: dict[TopicPartition, int] = {}
        self._under_way: set[TopicPartition] = set()
        self._ready: asyncio.Queue[TopicPartition] = asyncio.Queue()
        self._fetch_only: set[int] = set()  # brokers of the source, by what they can
        self._digesting: set[int] = set()
        self._silent: dict[int, tuple[int, str]] = {}  # source broker: until when, why
        self._file: ReconciliationFile | None = None
        self._thread = FileThread("reconciliation", FILE_TIMEOUT_S, ReconciliationFileError)
        self._unavailable = ""
        self._compared_blocks = self._read_bytes = 0
        self._rates: deque[tuple[float, int]] = deque()

    async def status(self, at_ms: int) -> ProofStatus:
        """What is proven now."""
        topics: dict[str, TopicProofTotals] = {}
        async for one in in_slices(self._proofs.values()):
            topics.setdefault(one.topic, TopicProofTotals(one.topic)).add(one)
        return proof_status(
            topics.values(), now_ms=at_ms, compared_blocks=self._compared_blocks,
            read_bytes=self._read_bytes, bytes_per_s=self._bytes_per_s(),
            not_compared=self._not_compared, unavailable=self._unavailable,
        )  # fmt: skip

    async def run(self) -> None:
        """Compare until cancelled."""
        for _ in range(OPEN_TRIES):  # the mirror before this one may still be closing it
            if await self._could_open():
                break
            await asyncio.sleep(OPEN_RETRY_S)
        workers = [spawn(self._work(), name=f"proof {number}") for number in range(AT_ONCE)]
        saver = spawn(self._save_again_and_again(), name="proofs are saved")
        tick_s = min(self._pace.interval_ms / 1000 / TICKS_PER_INTERVAL, LONGEST_TICK_S)
        asker = spawn(self._recent.run(tick_s), name="what is recent")
        try:
            while True:
                await self._update(now_ms())
                await asyncio.sleep(tick_s)
        finally:
            for task in (*workers, saver, asker):
                task.cancel()
            self._thread.close()
            self._close_file()

    # -- what is compared ---------------------------------------------------------------------

    async def _update(self, at_ms: int) -> None:
        is_compacted = self._context.copied.is_compacted
        self._not_compared = {
            name: COMPACTED for name in {p.topic for p in self._copies} if is_compacted(name)
        }
        for place in set(self._proofs) - set(self._copies):
            self._saved[place] = self._proofs.pop(place)  # it may be copied again
        new: list[PartitionCopy] = []
        async for place, copy in in_slices(self._copies.items()):
            if self._copies.get(place) is not copy:
                continue  # it ended meanwhile
            if place.topic in self._not_compared:
                self._proofs.pop(place, None)
            elif copy.acknowledged >= 0 and copy.target_log_start >= 0:
                proof = self._proof(copy)
                if proof is not None:
                    self._update_one(proof, copy, self._recent.of(copy) or 0, at_ms)
                else:
                    new.append(copy)
        for place, young_from in (await self._recent.first(new, at_ms)).items():
            copy_now = self._copies.get(place)
            if copy_now is not None:  # it may have ended meanwhile
                topic_id = copy_now.target_topic_id.hex()
                proof = PartitionProof(
                    topic=place.topic, partition=place.partition, topic_id=topic_id
                )
                self._proofs[place] = proof
                self._update_one(proof, copy_now, young_from, at_ms)

    def _update_one(
        self, proof: PartitionProof, copy: PartitionCopy, young_from: int, at_ms: int
    ) -> None:
        lag = lag_s(copy, at_ms, self._context.flow.answered_ms(copy))
        start, end = copy.held
        bounds = HeldBounds(
            start, end, copy.target_replicas,
            caught_up_ms=-1 if lag < 0 else at_ms - round(lag * 1000),
            young_from=young_from, newest_from=self._recent.newest(copy),
        )  # fmt: skip
        proof.update(bounds, self._pace, at_ms)
        place = copy.partition
        if place not in self._under_way and proof.next_task(self._pace, at_ms) is not None:
            self._under_way.add(place)
            self._ready.put_nowait(place)

    def _proof(self, copy: PartitionCopy) -> PartitionProof | None:
        """What is known of it, also from before a restart; None: it is looked at the first time."""
        place = copy.partition
        found = self._proofs.get(place) or self._saved.pop(place, None)
        if found is None:
            return None
        if found.topic_id != copy.target_topic_id.hex():
            self._proofs.pop(place, None)
            self._forget(place)
            return None
        self._proofs[place] = found
        return found

    async def _work(self) -> None:
        while True:
            place = await self._ready.get()
            try:
                for _ in range(TURNS):
                    proof = self._proofs.get(place)
                    task = proof.next_task(self._pace, now_ms()) if proof is not None else None
                    if proof is None or task is None:
                        break
                    await self._compare(proof, task)
            finally:
                self._under_way.discard(place)

    async def _compare(self, proof: PartitionProof, task: ProofTask) -> None:
        copy = self._copies.get(task.partition)
        if copy is None or copy.source_leader == NO_NODE:
            proof.on_source(task, "it has no leader", now_ms())
            return
        place = self._context.names.partition_at_target(task.partition)
        replicas: dict[int, ReplicaEndpoint] = {
            broker: DigestEndpoint(
                self._context.target.channel(broker, PURPOSE, pipelined=True),
                *place, self._context.clock.sleep,
            )
            for broker in task.brokers
        }  # fmt: skip
        comparison = BlockComparison(
            await self._source(copy, task), replicas, BLOCK_OFFSETS, self._on_read
        )
        results = await comparison.compare(task.first, task.end)
        at_ms = now_ms()
        for broker, result in results.items():
            await self._apply(proof, task, broker, result, at_ms)
        proof.on_source(task, comparison.source_failure, at_ms)
        await self._record(task, results, comparison.source_blocks, at_ms)

    async def _apply(
        self, proof: PartitionProof, task: ProofTask, broker: int, result: ReplicaComparison,
        at_ms: int,
    ) -> None:  # fmt: skip
        self._compared_blocks += result.blocks
        directory = ""
        if result.differences:
            directory = (await self._directories.of(broker, task.partition)).directory
            first = result.differences[0]
            log.warning(
                "%s-%d on broker %d (%s) differs from the source at offsets %d to %d: %s",
                *task.partition, broker, directory, first.first_offset, first.end_offset,
                first.detail,
            )  # fmt: skip
        found = [
            DifferingRange(broker, one.first_offset, one.end_offset, at_ms, one.detail, directory)
            for one in result.differences
        ]
        proof.on_compared(task, broker, result.reached, found, self._pace, at_ms)
        if result.failure:
            proof.on_failed(broker, result.failure, at_ms)

    async def _on_read(self, size: int) -> None:
        """So many bytes of disks were read: no more before the rate allows it."""
        self._read_bytes += size
        await self._spend(self._limit, size)

    def _bytes_per_s(self) -> float:
        now_s = self._context.clock.monotonic()
        self._rates.append((now_s, self._read_bytes))
        while now_s - self._rates[0][0] > RATE_S:
            self._rates.popleft()
        passed_s = now_s - self._rates[0][0]
        return (self._read_bytes - self._rates[0][1]) / passed_s if passed_s > 0 else 0.0

    # -- the source ---------------------------------------------------------------------------

    async def _source(self, copy: PartitionCopy, task: ProofTask) -> RecordedSource:
        leader = copy.source_leader
        until_ms, why = self._silent.get(leader, (0, ""))
        live = None
        if now_ms() >= until_ms:
            try:
                live = await self._live_source(copy)
            except EndpointError as error:
                why = str(error)
                if isinstance(error, EndpointSilent):
                    self._on_silent(leader, why)
        return RecordedSource(
            live,
            partial(self._recorded, task.partition),
            prefer_recorded=leader in self._fetch_only and task.kind is ProofKind.RECENT,
            why_silent=why,
            on_silent=partial(self._on_silent, leader),
        )

    async def _live_source(self, copy: PartitionCopy) -> ReplicaEndpoint:
        """By digests where the broker knows them on this listener. Raises EndpointError."""
        leader, place = copy.source_leader, copy.partition
        channel = self._context.source.channel(leader, PURPOSE, pipelined=True)
        endpoint = DigestEndpoint(channel, *place, self._context.clock.sleep)
        if leader not in self._fetch_only | self._digesting:
            found = self._digesting if await is_supported(endpoint) else self._fetch_only
            found.add(leader)
        if leader in self._digesting:
            return endpoint
        return FetchEndpoint(channel, place.topic, copy.topic_id, place.partition, self._on_link)

    def _on_silent(self, leader: int, why: str) -> None:
        self._silent[leader] = now_ms() + SILENT_MS, why

    async def _on_link(self, size: int) -> None:
        """What is fetched to be compared goes when the link is free, behind what is copied."""
        await self._spend(self._context.link, size)

    async def _spend(self, limit: LinkLimit, size: int) -> None:
        clock = self._context.clock
        limit.spend(size, clock.monotonic())
        while (wait_s := limit.wait_s(clock.monotonic())) > 0:
            await clock.sleep(wait_s)

    # -- records --------------------------------------------------------------------------------

    async def _recorded(self, place: TopicPartition, first: int, end: int) -> list[BlockDigest]:
        if self._file is None:
            return []
        try:
            return await self._thread.run(self._file.blocks, place, first, end)
        except ReconciliationFileError as error:
            self._unavailable = str(error)
            return []

    async def _record(
        self, task: ProofTask, results: Mapping[int, ReplicaComparison],
        blocks: Iterable[BlockDigest], at_ms: int,
    ) -> None:  # fmt: skip
        """Whole blocks that were equal on every replica that was compared: once when they are
        recent, at every scrub."""
        if self._file is None or not results or any(r.differences for r in results.values()):
            return
        reached = min(result.reached for result in results.values())
        begin = task.first
        if task.kind is ProofKind.RECENT:
            begin = max(begin, self._recorded_to.get(task.partition, 0))
        whole = [
            one
            for one in blocks
            if begin <= one.first_offset // BLOCK_OFFSETS * BLOCK_OFFSETS
            and (one.first_offset // BLOCK_OFFSETS + 1) * BLOCK_OFFSETS <= reached
        ]
        if not whole:
            return
        brokers = ",".join(str(broker) for broker in sorted(results))
        try:
            await self._thread.run(self._file.add, task.partition, whole, brokers, at_ms)
            self._unavailable = ""
        except ReconciliationFileError as error:
            self._unavailable = str(error)
            return
        if task.kind is ProofKind.RECENT:
            self._recorded_to[task.partition] = reached // BLOCK_OFFSETS * BLOCK_OFFSETS

    async def _could_open(self) -> bool:
        if self._path is None:
            return True
        try:
            self._file, saved = await self._thread.run(_opened, self._path)
        except ReconciliationFileError as error:
            log.warning("what was compared is not kept: %s", error)
            self._unavailable = str(error)
            return False
        self._unavailable = ""
        self._saved |= {one.key: one for one in saved if one.key not in self._proofs}
        return True

    async def _save_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            if self._file is None:
                await self._could_open()
            if self._file is not None:
                try:
                    await self._thread.run(self._file.save, self._bodies())
                except ReconciliationFileError as error:
                    self._unavailable = str(error)

    def _bodies(self) -> list[tuple[TopicPartition, bytes, int]]:
        return [
            (place, msgspec.json.encode(proof), proof.start)
            for place, proof in self._proofs.items()
        ]

    def _close_file(self) -> None:
        """What was proven since the last time is kept too; a kill costs ten seconds of it."""
        if self._file is not None:
            with suppress(ReconciliationFileError):
                self._file.save(self._bodies())
            self._file.close()

    def _forget(self, place: TopicPartition) -> None:
        if self._file is not None:
            spawn(self._delete(self._file, place), name=f"forget {place}")

    async def _delete(self, file: ReconciliationFile, place: TopicPartition) -> None:
        try:
            await self._thread.run(file.forget, place)
        except ReconciliationFileError as error:
            self._unavailable = str(error)


def _opened(path: Path) -> tuple[ReconciliationFile, list[PartitionProof]]:
    """Raises ReconciliationFileError."""
    file = ReconciliationFile(path)
    try:
        return file, file.proofs()
    except ReconciliationFileError:
        file.close()
        raise
