"""Opening a log after every kind of end its last user can have had."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.log import Log
from bus.records.batch import check_crc, iter_batches

NOW_MS = 1_760_000_000_000
MakeLog = Callable[..., Log]
Batch = Callable[..., bytearray]


def put(log: Log, data: bytearray, epoch: int = 0) -> None:
    log.append(data, leader_epoch=epoch, now_ms=NOW_MS)


def everything(log: Log) -> bytes:
    pieces, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 20).data)
        pieces.append(data)
        offset = max(h.end_offset for _, h in iter_batches(data))
    return b"".join(pieces)


def crash(log: Log) -> None:
    """What kill -9 leaves: the bytes in the files, nothing closed or saved."""
    log.release()


def state(log: Log) -> dict[int, object]:
    return {
        e.producer_id: (e.epoch, list(e.batches), e.transaction_first_offset)
        for e in log.producers.active()
    }


def fill(log: Log, batch: Batch, count: int, seed: int = 1, first_epoch: int = 0) -> list[int]:
    """Batches of plain and idempotent producers over two epochs; their end positions."""
    dice, ends, sequence = random.Random(seed), [], {7: 0, 8: 0}
    for i in range(count):
        many = dice.randrange(1, 4)
        if dice.random() < 0.5:
            pid = dice.choice([7, 8])
            data = batch(many, size=dice.randrange(30), producer_id=pid, producer_epoch=0,
                         base_sequence=sequence[pid])  # fmt: skip
            sequence[pid] += many
        else:
            data = batch(many, size=dice.randrange(30))
        put(log, data, epoch=first_epoch + i // (count // 2))
        ends.append(log.size_bytes)
    return ends


def test_a_clean_stop_is_opened_without_reading_the_log(make_log: MakeLog, batch: Batch) -> None:
    log = make_log(segment_bytes=900)
    fill(log, batch, 40)
    before = everything(log), state(log), log.end_offset, log.leader_epochs.entries
    log.close()
    again = make_log(clean=True, recovery_point=log.end_offset, segment_bytes=900)
    assert (everything(again), again.end_offset) == (before[0], before[2])
    assert (
        {p: s[1][-1:] for p, s in state(again).items()}
        == {  # type: ignore[index]
            p: s[1][-1:]
            for p, s in before[1].items()  # type: ignore[index]
        }
    )
    assert again.leader_epochs.entries == before[3]
    assert again.truncated_bytes == 0


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 300, 100])
def test_batches_sent_again_over_a_restart_are_recognised_not_only_the_last(
    make_log: MakeLog, batch: Batch, clean: bool, segment_bytes: int
) -> None:
    """A snapshot holds the newest batch of a producer, but five may be in flight; they were looked
    for in the last segment only, and a retry was out of order after a roll and a restart."""
    log = make_log(segment_bytes=segment_bytes)
    sent = [
        batch(2, producer_id=3, producer_epoch=1, base_sequence=2 * i, is_transactional=False)
        for i in range(7)
    ]
    for data in sent:
        put(log, bytearray(data))
    recovery_point = log.end_offset
    log.flush()
    log.take_snapshot()
    if clean:
        log.close()
    else:
        crash(log)
    again = make_log(clean=clean, recovery_point=recovery_point, segment_bytes=segment_bytes)
    for i in range(2, 7):
        info = again.append(bytearray(sent[i]), leader_epoch=0, now_ms=NOW_MS)
        assert (info.duplicate, info.base_offset) == (True, 2 * i)


def test_a_log_cut_between_two_segments_still_recognises_batches_that_are_sent_again(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    """Found by the simulation: the power failed, a segment in the middle had lost its end, and what
    came after it was dropped; the batches that the snapshot leaves out were not looked for then."""
    log = make_log(segment_bytes=300)
    sent = [batch(2, producer_id=3, producer_epoch=1, base_sequence=2 * i) for i in range(18)]
    for data in sent:
        put(log, bytearray(data))
    log.flush()
    crash(log)
    segments = sorted(Path(fast_dir, "t-0").glob("*.log"))
    assert len(segments) > 4
    torn = segments[-2]
    torn.write_bytes(torn.read_bytes()[:-1])
    snapshots = sorted(Path(fast_dir, "t-0").glob("*.snapshot"))
    again = make_log(recovery_point=int(snapshots[-2].stem), segment_bytes=300)
    held = again.end_offset // 2  # batches of two
    assert int(snapshots[-2].stem) <= again.end_offset < 2 * len(sent)
    for i in range(held - 5, held):
        info = again.append(bytearray(sent[i]), leader_epoch=0, now_ms=NOW_MS)
        assert (info.duplicate, info.base_offset) == (True, 2 * i)
    assert not again.append(bytearray(sent[held]), leader_epoch=0, now_ms=NOW_MS).duplicate


@pytest.mark.parametrize("index_interval_bytes", [0, 4096])
def test_a_tail_torn_at_any_byte_is_cut_at_the_last_whole_batch(
    make_log: MakeLog, batch: Batch, fast_dir: str, index_interval_bytes: int
) -> None:
    settings = {"index_interval_bytes": index_interval_bytes}
    log = make_log(**settings)
    ends = [0, *fill(log, batch, 5)]
    crash(log)
    path = Path(f"{fast_dir}/t-0/{0:020d}.log")
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        log = make_log(**settings)
        expected = max(end for end in ends if end <= size)
        assert everything(log) == whole[:expected], f"cut at {size}"
        assert path.stat().st_size == expected
        assert log.truncated_bytes == size - expected
        crash(log)


def test_a_bit_flipped_at_any_byte_behind_the_recovery_point_cuts_the_log_before_its_batch(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    log = make_log()
    ends = [0, *fill(log, batch, 4)]
    crash(log)
    path = Path(f"{fast_dir}/t-0/{0:020d}.log")
    whole = path.read_bytes()
    for at in range(len(whole)):
        begin = max(end for end in ends if end <= at)
        field = at - begin
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        log = make_log()
        kept = everything(log)
        # Base offset (0-7) and leader epoch (12-15) lie outside the CRC; a flip there may be
        # taken for a gap or another epoch, and the rest of the log then has to agree with it.
        if not (field < 8 or 12 <= field < 16):
            assert kept == whole[:begin], f"flip at {at}"
        for _, header in iter_batches(kept):
            assert header.base_offset >= 0
        crash(log)


def test_damage_in_an_older_unflushed_segment_drops_all_later_ones(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    log = make_log(segment_bytes=600)
    fill(log, batch, 40)
    second = log.segments.all[1]
    whole = everything(log)
    crash(log)
    path = Path(second.path)
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    again = make_log(segment_bytes=600)
    assert len(again.segments) == 2
    assert whole.startswith(everything(again))
    put(again, batch(1))
    assert len(list(Path(f"{fast_dir}/t-0").glob("*.log"))) <= 3


def test_below_the_recovery_point_nothing_is_checked_or_cut_for_a_bad_crc(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    """What was flushed is the disk's to answer for; cutting would lose all that follows."""
    log = make_log()
    fill(log, batch, 6)
    log.flush()
    end = log.end_offset
    crash(log)
    path = Path(f"{fast_dir}/t-0/{0:020d}.log")
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert make_log(recovery_point=end).end_offset == end


@pytest.mark.parametrize("seed", range(15))
def test_producer_state_epochs_and_indexes_after_a_crash_are_those_before_it(
    make_log: MakeLog, batch: Batch, seed: int
) -> None:
    """With any flushed part and any segment boundaries."""
    print(f"seed={seed}")
    dice = random.Random(seed)
    settings = {
        "segment_bytes": dice.choice([500, 3000, 1 << 30]),
        "index_interval_bytes": dice.choice([0, 300, 4096]),
    }
    log = make_log(**settings)
    fill(log, batch, dice.randrange(2, 40), seed)
    if dice.random() < 0.7:
        log.flush()
        log.take_snapshot()
    recovery_point = log.recovery_point
    newer = log.leader_epochs.latest + 1
    fill(log, _no_producer(batch), dice.randrange(2, 40), seed, newer)
    before = everything(log), state(log), log.leader_epochs.entries, _entries(log)
    crash(log)
    again = make_log(recovery_point=recovery_point, **settings)
    assert everything(again) == before[0]
    assert (
        {p: s[1][-1:] for p, s in state(again).items()}
        == {  # type: ignore[index]
            p: s[1][-1:]
            for p, s in before[1].items()  # type: ignore[index]
        }
    )
    assert again.leader_epochs.entries == before[2]
    for offset in range(again.end_offset):
        assert any(h.base_offset <= offset <= h.last_offset
                   for _, h in iter_batches(again.read(offset, 1).data))  # fmt: skip


def _no_producer(batch: Batch) -> Batch:
    return lambda *a, **k: batch(*a, size=k["size"])


def _entries(log: Log) -> list[list[tuple[int, int]]]:
    return [[s.offsets.at(i) for i in range(len(s.offsets))] for s in log.segments.all]


@pytest.mark.parametrize("damage", ["missing", "garbage", "torn", "zeros", "foreign"])
def test_indexes_that_cannot_be_believed_are_made_anew(
    make_log: MakeLog, batch: Batch, fast_dir: str, damage: str
) -> None:
    settings = {"segment_bytes": 2000, "index_interval_bytes": 100}
    log = make_log(**settings)
    fill(log, batch, 80)
    whole = everything(log)
    entries = _entries(log)
    log.close()
    for path in [
        *Path(f"{fast_dir}/t-0").glob("*.index"),
        *Path(f"{fast_dir}/t-0").glob("*.time*"),
    ]:
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes({
                "garbage": bytes(range(255, 0, -1)),
                "torn": data[:-3],
                "zeros": data + bytes(4096 - len(data) % 24),
                "foreign": b"\x7f" * len(data),
            }[damage])  # fmt: skip
    again = make_log(clean=True, recovery_point=log.end_offset, **settings)
    assert everything(again) == whole
    if damage != "zeros":
        assert _entries(again) == entries


def test_leftovers_of_an_interrupted_roll_or_deletion_do_no_harm(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    log = make_log()
    fill(log, batch, 5)
    whole = everything(log)
    crash(log)
    root = Path(f"{fast_dir}/t-0")
    (root / f"{log.end_offset:020d}.log").write_bytes(b"")
    (root / f"{99:020d}.index").write_bytes(b"12345678")
    (root / f"{3:020d}.log.deleted").write_bytes(b"gone")
    (root / f"{5:020d}.snapshot.tmp").write_bytes(b"half")
    (root / f"{2:020d}.snapshot").write_bytes(b"no snapshot at all")
    again = make_log()
    assert everything(again) == whole
    assert {p.suffix for p in root.iterdir()} <= {".log", ".index", ".timeindex", "", ".snapshot"}
    put(again, batch(1))


def test_a_log_that_ends_before_its_start_begins_anew_there(
    make_log: MakeLog, batch: Batch
) -> None:
    log = make_log()
    fill(log, batch, 3)
    crash(log)
    again = make_log(log_start_offset=1000)
    assert (again.log_start_offset, again.end_offset) == (1000, 1000)


_WRITER = """
import sys
from dataclasses import replace
from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.log import Log
from bus.records.build import build_batch
from bus.records.record import Record
log = Log(sys.argv[1], disk=RealDisk(), now_ms=0,
               config=replace(TopicConfig(), segment_bytes=20_000, index_interval_bytes=200))
i = log.end_offset
while True:
    data = build_batch([Record(b"k", b"%d" % i * 9, timestamp_ms=i)], producer_id=5,
                       producer_epoch=0, base_sequence=i)
    log.append(data, leader_epoch=0, now_ms=0)
    sys.stdout.buffer.write(b"%d\\n" % i)
    sys.stdout.buffer.flush()
    i += 1
"""


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    make_log: MakeLog, fast_dir: str
) -> None:
    """A real process, a real kill -9, twice over the same directory."""
    root = Path(__file__).parents[3]
    settings = {"segment_bytes": 20_000, "index_interval_bytes": 200}
    for round_ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, f"{fast_dir}/t-0"],
            stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(150 + 37 * round_)]
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        writer.wait()
        acknowledged = [*lines, *rest.splitlines(keepends=True)]
        last = int([a for a in acknowledged if a.endswith(b"\n")][-1])
        log = make_log(**settings)
        assert log.end_offset >= last + 1
        offsets = [h.base_offset for _, h in iter_batches(everything(log))]
        assert offsets == list(range(log.end_offset))
        for at, _ in iter_batches(data := everything(log)):
            check_crc(data[at:])
        assert log.producers.entries[5].last_sequence == log.end_offset - 1
        crash(log)
    shutil.rmtree(f"{fast_dir}/t-0")


def test_records_lost_between_two_segments_cut_the_log_there(
    make_log: MakeLog, batch: Batch, fast_dir: str
) -> None:
    """Found by the simulation: the power failed after a roll; the new segment had reached the
    device, the last whole batches of the one before had not. The hole was served as a log."""
    log = make_log(segment_bytes=900)
    fill(log, batch, 40)
    log.flush()
    log.close()
    segments = sorted(Path(fast_dir, "t-0").glob("*.log"))
    assert len(segments) > 3
    victim = segments[1]
    data = victim.read_bytes()
    last = [(at, header) for at, header in iter_batches(data)][-1]
    victim.write_bytes(data[: last[0]])
    reopened = make_log(segment_bytes=900)
    assert reopened.end_offset == last[1].base_offset
    assert len(list(Path(fast_dir, "t-0").glob("*.log"))) == 2
    # Below the recovery point such a gap is the cleaner's work and stays.
    reopened.close()


def test_a_flush_that_was_overtaken_by_a_truncation_vouches_for_nothing_new(
    make_log: MakeLog, batch: Batch
) -> None:
    """What replaced the cut records while the flush was under way has not been forced."""
    log = make_log()
    fill(log, batch, 10)
    flush = log.begin_flush()
    offset = flush.offset
    log.truncate_to(offset // 2, NOW_MS)
    cut = log.end_offset
    while log.end_offset < offset:
        put(log, batch(1), epoch=5)
    log.mark_flushed(flush, NOW_MS)
    assert log.recovery_point == cut
