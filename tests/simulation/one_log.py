"""One log, its cleaner and a drawn life: everything that can happen to a log happens to this one.

In: a seed. Out: complaints. A model holds every record that was ever written and is not cut off; after
each event the log is read and compared with it. Cut off is here what a cluster seldom cuts off: what
was committed, as MirrorTruncate and unclean elections do, so that a result of an older generation or
a checkpoint that is too high would be seen.
Never: a cluster (`table_story`).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DiskError
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.log.retention import delete_old_segments
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from tests.simulation.cleaner_process import SimCleanerProcess
from tests.simulation.clock import SimClock
from tests.simulation.disk import CAPACITY_BYTES, Killed, ProcessDisk, SimDisk
from tests.simulation.log_model import (
    ModelProducer,
    ModelRecord,
    SentBatch,
    TableModel,
    fold,
)
from tests.simulation.loop import START_S, ProcessLife
from tests.simulation.world import SimWorld

EVENTS = 220
KEYS = 6
TOMBSTONES = 0.3
NEW_QUIET, DELETED_QUIET = 0.15, 0.3
"""Shares of the records whose key is written once, and deleted once: a tombstone that goes before
its value is seen only where nobody writes the key again."""
QUIET_KEYS = 8
"""Of which at most so many wait for their tombstone."""
RETENTION_MS = 1_000
HOME = "/data/logs"
TOPIC = "t"
PROPERTIES = {
    "log.dirs": HOME,
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "20000",
    "log.flush.offset.checkpoint.interval.ms": "400",
    "log.flush.start.offset.checkpoint.interval.ms": "700",
    "log.scrub.bytes.per.second": "0",
}
TABLE = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "700",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(RETENTION_MS),
    "file.delete.delay.ms": "50",
}
TRANSACTIONAL_ID = 900


CUT_SHORT = 0.4
CUT_SHORT_S = (0.0, 0.03)
"""How long after the beginning of a truncation its process may die: it takes some flushes of the
log, and then of the checkpoints."""


class SavedModel(NamedTuple):
    """What was known before a truncation: a loss of power may undo it."""

    model: TableModel
    producers: list[ModelProducer]
    reopened: list[int]
    end_offset: int
    """Of the log after the truncation."""


@dataclass(slots=True)
class SlowReader:
    """Reads the log a piece at a time, while it is cleaned."""

    began_s: float
    newest: dict[str, ModelRecord]
    position: int
    pieces: list[bytes] = field(default_factory=list)


class LogProcess:
    """One process with the log. Invariant: what it knows dies with it; the disk stays."""

    def __init__(self, world: SimWorld, disk: SimDisk, number: int) -> None:
        self.life = ProcessLife(f"broker#{number}")
        self.life.deathbed.append(world.loop.bury)
        dice = world.dice_of(f"{self.life.name}/dice")
        self.clock = SimClock(world.loop, self.life, dice)
        self.disk = ProcessDisk(disk, self.life, dice)
        self.config = BrokerConfig.from_mapping(PROPERTIES)
        self.logs = LogManager(config=self.config, disk=self.disk, clock=self.clock)
        self.child = SimCleanerProcess(
            world.loop, self.life, disk, world.dice_of(f"{self.life.name}/child"),
            lambda: self.disk.fault,
        )  # fmt: skip
        self.cleaner = LogCleaner(self.logs, self.child, self.clock, lambda name: False)
        self.log: Log | None = None

    def topic(self, policy: str = "compact") -> TopicConfig:
        return TopicConfig.of(self.config, TABLE | {"cleanup.policy": policy})

    def open(self) -> None:
        self.logs.prepare("c2ltdWxhdGVkLXdvcmxkMQ")
        self.logs.load(lambda name: self.topic())
        self.logs.start()
        self.log = self.logs.get(TOPIC, 0)
        self.cleaner.start()


class OneLogRun:
    """One seed."""

    def __init__(self, seed: int, show: Callable[[str], None] | None = None) -> None:
        self.world = SimWorld(f"one-log-{seed}", show=show)
        self.dice = self.world.dice
        self.disk = SimDisk("machine", self.world.dice_of("disk"), self._now_ms)
        self.wall_error_ms = 0
        self.model = TableModel()
        self.producers = [ModelProducer(number) for number in range(3)]
        self.reader: SlowReader | None = None
        self.process: LogProcess | None = None
        self.starts = self.lives = self.numbers = self.transactions = 0
        self.epoch = 0
        self.reopened: list[int] = []
        self.quiet: list[str] = []
        self.before_cut: SavedModel | None = None
        """As long as a truncation is on its way to the device."""

    def _now_ms(self) -> int:
        return 1_790_000_000_000 + int((self.world.loop.time() - START_S) * 1000)

    def run(self) -> list[str]:
        """Runs it; the complaints."""
        self.world.run(self._play())
        wrong = self.world.complaints
        self.world.end()
        return wrong

    @property
    def log(self) -> Log:
        assert self.process is not None
        assert self.process.log is not None
        return self.process.log

    async def _play(self) -> None:
        await self._start()
        events: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (40, self._append), (8, self._send_again), (25, self._commit), (10, self._transact),
            (3, self._truncate), (3, self._delete_records), (2, self._change_policy),
            (1, self._make_anew), (3, self._restart), (2, self._lose_power), (2, self._fill_disk),
            (2, self._kill_child), (6, self._flush),
        ]  # fmt: skip
        for _ in range(EVENTS):
            await asyncio.sleep(0.25 * self.dice.random() ** 2)
            event = self.dice.choices([one for _, one in events], [weight for weight, _ in events])[0]
            self.world.trace(f"{event.__name__} at {self.log.end_offset}")
            await self._in_the_process(self._end_what_is_open)
            await self._in_the_process(event)
            self._compare()
            self._read_on()
            if self.world.complaints:
                return
        await asyncio.sleep(2.0)
        self._compare()

    async def _in_the_process(self, event: Callable[[], Awaitable[None]]) -> None:
        with suppress(Killed):
            await event()

    # --- the process -----------------------------------------------------------------------------

    async def _start(self) -> None:
        """A new process on the disk as it is."""
        self.starts += 1
        process = self.process = LogProcess(self.world, self.disk, self.starts)
        self.epoch += 1
        opening = self.world.loop.create_task(self._open(process), context=process.life.context)
        await opening
        self.reader = None

    async def _open(self, process: LogProcess) -> None:
        process.open()
        if process.log is None:
            self.lives += 1
            uuid = bytes([self.lives]) * 16
            process.log = process.logs.create(TOPIC, 0, uuid, process.topic())
        while process.log.guard.is_blocked:
            await asyncio.sleep(0.01)

    async def _restart(self) -> None:
        """SIGKILL: the page cache stays, the watermark is not known."""
        before, flushed = self.log.end_offset, self.log.recovery_point
        self._die()
        await self._start()
        self._came_back(before, flushed, is_power=False)

    async def _lose_power(self) -> None:
        before, flushed = self.log.end_offset, self.log.recovery_point
        assert self.process is not None
        self.process.child.lose_power()
        self._die()
        self.disk.lose_power()
        await self._start()
        self._came_back(before, flushed, is_power=True)

    def _forget_undone_cut(self, before: int, end: int) -> None:
        """What was cut off may be back if nothing was appended there."""
        saved, self.before_cut = self.before_cut, None
        if saved is not None and end > before == saved.end_offset:
            self.world.trace(f"the truncation to {saved.end_offset} is undone up to {end}")
            self.model, self.producers, self.reopened, _ = saved

    def _die(self) -> None:
        assert self.process is not None
        self.process.life.die()

    def _came_back(self, before: int, flushed: int, *, is_power: bool) -> None:
        end = self.log.end_offset
        if end != before and not is_power:
            self.world.complain(f"the log ended at {before}, and at {end} after a kill")
        if end < flushed:
            self.world.complain(f"the log ends at {end}, and was forced to {flushed}")
        self._forget_undone_cut(before, end)
        self._cut(end)
        self.log.advance_high_watermark(min(self.model.watermark, end))

    # --- what is written -------------------------------------------------------------------------

    def _records(self, count: int) -> tuple[list[Record], list[tuple[str, bool, int]]]:
        records, said = [], []
        for _ in range(count):
            self.numbers += 1
            key, is_value = self._draw_key()
            headers = [("n", str(self.numbers).encode())]
            value = b"v" * 30 if is_value else None
            records.append(Record(key.encode(), value, headers, timestamp_ms=self._now_ms()))
            said.append((key, is_value, self.numbers))
        return records, said

    def _draw_key(self) -> tuple[str, bool]:
        """A key, and whether it gets a value."""
        draw = self.dice.random()
        if draw < NEW_QUIET and len(self.quiet) < QUIET_KEYS:
            self.quiet.append(f"q{self.numbers}")
            return self.quiet[-1], True
        if draw < DELETED_QUIET and self.quiet:
            return self.quiet.pop(self.dice.randrange(len(self.quiet))), False
        return f"k{self.dice.randrange(KEYS)}", self.dice.random() >= TOMBSTONES

    async def _append(self) -> None:
        if self.dice.random() < 0.5:
            await self._produce(self.producers[self.dice.randrange(len(self.producers))])
            return
        records, said = self._records(1 + self.dice.randrange(4))
        self._put(bytes(build_batch(records)), said, -1)

    async def _produce(self, producer: ModelProducer) -> None:
        records, said = self._records(1 + self.dice.randrange(3))
        sequence = producer.next_sequence
        batch = bytes(
            build_batch(
                records, producer_id=producer.producer_id, producer_epoch=0, base_sequence=sequence
            )
        )
        base_offset = self._put(batch, said, producer.producer_id)
        if base_offset is not None:
            last = base_offset + len(said) - 1
            producer.batches.append(SentBatch(batch, base_offset, last, sequence, len(said)))
            del producer.batches[:-5]

    def _put(
        self, batch: bytes, said: list[tuple[str, bool, int]], producer_id: int, *,
        is_transactional: bool = False,
    ) -> int | None:  # fmt: skip
        before = self.log.end_offset
        try:
            info = self.log.append(bytearray(batch), leader_epoch=self.epoch, now_ms=self._now_ms())
        except LogError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR and not self.log.guard.is_blocked:
                self.world.complain(f"a batch of producer {producer_id} is refused: {error}")
            return None
        if info.base_offset != before:
            self.world.complain(f"a new batch got offset {info.base_offset}, the log ended at {before}")
        self.model.add([
            ModelRecord(before + index, key, is_value, number, producer_id, is_transactional)
            for index, (key, is_value, number) in enumerate(said)
        ])  # fmt: skip
        return before

    async def _send_again(self) -> None:
        """A producer that did not hear of an acknowledgement."""
        producer = self.producers[self.dice.randrange(len(self.producers))]
        if not producer.batches:
            return
        sent = producer.batches[self.dice.randrange(len(producer.batches))]
        try:
            info = self.log.append(
                bytearray(sent.data), leader_epoch=self.epoch, now_ms=self._now_ms()
            )
        except LogError as error:
            self.world.complain(f"a batch sent again by {producer.producer_id} is refused: {error}")
            return
        if info.base_offset != sent.base_offset:
            self.world.complain(
                f"sequence {sent.sequence} of {producer.producer_id} is at {info.base_offset}, "
                f"and was at {sent.base_offset}"
            )

    async def _transact(self) -> None:
        """A transaction goes on, or ends."""
        if self.model.open_from < 0:
            self.transactions += 1
        producer_id = TRANSACTIONAL_ID + self.transactions
        if self.model.open_from >= 0 and self.dice.random() < 0.4:
            is_committed = self.dice.random() < 0.5
            with suppress(LogError):
                self._end_transaction(producer_id, is_committed=is_committed)
                self.model.decide(is_committed)
                self.model.markers[producer_id] = self.log.end_offset - 1
            return
        records, said = self._records(1 + self.dice.randrange(2))
        known = self.process.log.producers.entries.get(producer_id)  # type: ignore[union-attr]
        sequence = (known.last_sequence + 1) if known is not None else 0
        batch = build_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence,
            is_transactional=True,
        )  # fmt: skip
        offset = self._put(bytes(batch), said, producer_id, is_transactional=True)
        if offset is not None and self.model.open_from < 0:
            self.model.open_from = offset

    def _end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        marker = end_txn_marker(
            commit=is_committed, producer_id=producer_id, producer_epoch=0,
            coordinator_epoch=1, timestamp_ms=self._now_ms(),
        )  # fmt: skip
        marker[0:8] = self.log.end_offset.to_bytes(8, "big")
        marker[12:16] = self.epoch.to_bytes(4, "big")
        self.log.append_as_follower(marker, self._now_ms())

    async def _commit(self) -> None:
        """The watermark rises, not always to the end."""
        end, now = self.log.end_offset, self.log.high_watermark
        to = end if self.dice.random() < 0.6 else now + self.dice.randrange(end - now + 1)
        self.log.advance_high_watermark(to)
        self.model.watermark = max(self.model.watermark, to)

    async def _flush(self) -> None:
        assert self.process is not None
        await self._run(self.process.logs.flush(self.log))

    async def _run(self, work: Awaitable[object]) -> None:
        """In the process, which may die meanwhile."""
        assert self.process is not None
        await self.world.loop.create_task(_await(work), context=self.process.life.context)

    # --- what is taken away ----------------------------------------------------------------------

    def _cut(self, end: int) -> None:
        self.model.cut_from(end)
        self.model.watermark = min(self.model.watermark, end)
        for producer in self.producers:
            producer.batches = [one for one in producer.batches if one.last_offset < end]
            if not producer.batches:
                producer.producer_id += 10
        self.reader = None
        self.reopened += self.model.reopen(end)

    async def _end_what_is_open(self) -> None:
        """Transactions whose end was cut off."""
        while self.reopened and not self.log.guard.is_blocked:
            with suppress(LogError):
                self._end_transaction(self.reopened[-1], is_committed=False)
                self.reopened.pop()
                continue
            return

    async def _truncate(self) -> None:
        """As MirrorTruncate does: what was committed is cut off, too."""
        log, process = self.log, self.process
        assert process is not None
        to = self._truncation_point(log)
        is_cut_short = self.dice.random() < CUT_SHORT
        saved = copy.deepcopy((self.model, self.producers, self.reopened))
        truncation = log.begin_truncate_to(to, self._now_ms())
        self._cut(log.end_offset)
        self.before_cut = SavedModel(*saved, log.end_offset)
        self.epoch += 1
        finishing = process.logs.finish_truncation(log, truncation)
        if is_cut_short:
            await self._die_while(finishing)
        else:
            await self._run(finishing)
            self.before_cut = None

    def _truncation_point(self, log: Log) -> int:
        """Above the watermark, below what was cleaned already, or anywhere."""
        start, end, clean = log.log_start_offset, log.end_offset, log.cleaning.first_dirty_offset
        anywhere = start + self.dice.randrange(end - start + 1)
        draw = self.dice.random()
        if draw < 0.4:
            return max(anywhere, log.high_watermark)
        if draw < 0.8 and clean > start:
            return start + self.dice.randrange(clean - start)
        return anywhere

    async def _die_while(self, finishing: Awaitable[object]) -> None:
        """The process is killed, or its power lost, at any moment of a truncation; whoever may
        append by then does."""
        assert self.process is not None
        self.world.loop.create_task(_await(finishing), context=self.process.life.context)
        low, high = CUT_SHORT_S
        until_s = self.world.loop.time() + low + (high - low) * self.dice.random()
        while self.world.loop.time() < until_s:
            await asyncio.sleep(0.001)
            if not self.log.guard.is_blocked:
                await self._append()
        await (self._restart() if self.dice.random() < 0.5 else self._lose_power())

    async def _delete_records(self) -> None:
        log, process = self.log, self.process
        assert process is not None
        start, watermark = log.log_start_offset, log.high_watermark
        if self.dice.random() < 0.5 or watermark <= start or self.model.open_from >= 0:
            return
        to = start + self.dice.randrange(watermark - start + 1)
        log.delete_records_before(to)
        with suppress(DiskError, LogError):
            process.logs.remove_later(delete_old_segments(log, process.disk, self._now_ms()), 50)
        self.model.cut_below(to)
        for producer in self.producers:
            producer.batches = [one for one in producer.batches if one.base_offset >= to]
            if not producer.batches:
                producer.producer_id += 10
        self.reader = None

    async def _change_policy(self) -> None:
        assert self.process is not None
        self.log.reconfigure(self.process.topic("delete"))
        if self.dice.random() < 0.5:
            await asyncio.sleep(0.3 * self.dice.random())
        self.log.reconfigure(self.process.topic())

    async def _make_anew(self) -> None:
        """The topic is deleted, and made again under its name."""
        process = self.process
        assert process is not None
        self.lives += 1
        uuid = bytes([self.lives]) * 16
        try:
            process.logs.delete(TOPIC, 0)
            process.log = process.logs.create(TOPIC, 0, uuid, process.topic())
        except LogError as error:
            self.world.trace(f"not made anew: {error}")
            self._die()
            await self._start()
        self.model = TableModel()
        self.quiet.clear()
        self.producers = [ModelProducer(one.producer_id + 10) for one in self.producers]
        self.reader = None
        while self.log.guard.is_blocked:
            await asyncio.sleep(0.01)
        if self.log.end_offset:
            self.world.complain(f"a new topic ends at {self.log.end_offset}")

    async def _fill_disk(self) -> None:
        self.disk.fill_up(self.dice.randrange(0, 2_000))
        await asyncio.sleep(0.5 * self.dice.random())
        self.disk.capacity_bytes = CAPACITY_BYTES

    async def _kill_child(self) -> None:
        assert self.process is not None
        self.process.child.kill()

    # --- looking ---------------------------------------------------------------------------------

    def _compare(self) -> None:
        log = self.log
        try:
            pieces = [bytes(one.read_bytes(0, one.size_bytes)) for one in log.segments.all]
        except (DiskError, LogError) as error:
            self.world.complain(f"the log cannot be read: {error}")
            return
        found = {
            key: one for key, one in fold(pieces, self.world.complain).items()
            if one.offset >= log.log_start_offset
        }  # fmt: skip
        for one in self.model.what_is_wrong(found, log.end_offset):
            self.world.complain(one)

    def _read_on(self) -> None:
        """A reader that began at the start goes on; at its end it has every key."""
        log, reader = self.log, self.reader
        now_s = self.world.loop.time()
        if reader is None or now_s - reader.began_s > RETENTION_MS / 1000:
            newest = self.model.newest(log.last_stable_offset)
            self.reader = SlowReader(now_s, newest, log.log_start_offset)
            return
        try:
            data = bytes(log.read(reader.position, 800, upper_offset=log.high_watermark).data)
        except LogError:
            self.reader = None
            return
        reader.pieces.append(data)
        if data:
            reader.position = [header for _, header in iter_batches(data)][-1].end_offset
        if reader.position < log.last_stable_offset:
            return  # what it has not reached may have replaced what it has
        found = fold(reader.pieces, self.world.complain)
        for key, wanted in reader.newest.items():
            here = found.get(key)
            if here is not None and here.is_value and here.number < wanted.number:
                self.world.complain(f"a reader found {here}, and {wanted} was there when it began")
        self.reader = None


async def _await(work: Awaitable[object]) -> None:
    with suppress(LogError, DiskError):
        await work


def run_one_log(seed: int, show: Callable[[str], None] | None = None) -> list[str]:
    """The complaints of one seed."""
    return OneLogRun(seed, show).run()


