"""`databus log dump`: a segment, its indexes and snapshots as lines."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.group.readable import readable
from broker.coordinator.group.records import (
    CommittedOffset,
    CoordinatorRecord,
    GroupRecord,
    OffsetRecord,
    StoredGroup,
    StoredMember,
    encode,
)
from broker.disk.real import RealDisk
from broker.log.dump import Line, dump_file, readable_files
from broker.log.log import Log
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from bus.records.retain import retain
from tests.broker.log.cleaned_log import batches_of, clean, fill, topic_config

NOW_MS = 1_760_000_000_000
KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")


def lines(path: str | Path, **options: object) -> list[Line]:
    found: list[Line] = []
    for one in readable_files(RealDisk(), str(path)):
        found += dump_file(RealDisk(), one, **options)  # type: ignore[arg-type]
    return found


def filled(fast_dir: str, seed: int) -> Log:
    """A cleaned log, with a producer whose transaction was aborted."""
    dice = random.Random(seed)
    log = Log(f"{fast_dir}/t-0", disk=RealDisk(), config=topic_config(dice), now_ms=NOW_MS)
    epoch = fill(log, dice, 40)
    clean(log, RealDisk(), dice)
    data = build_batch([Record(b"k", b"\xff")], producer_id=7, producer_epoch=0, base_sequence=0,
                       is_transactional=True)  # fmt: skip
    log.append(data, leader_epoch=epoch, now_ms=NOW_MS)
    marker = end_txn_marker(commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=3,
                            timestamp_ms=NOW_MS)  # fmt: skip
    marker[0:8] = log.end_offset.to_bytes(8, "big")
    log.append_as_follower(marker, NOW_MS)
    return log


@pytest.mark.parametrize("seed", range(2))
def test_each_batch_index_entry_and_producer_of_a_directory_is_a_line(
    fast_dir: str, seed: int
) -> None:
    log = filled(fast_dir, seed)
    log.close()
    found = lines(log.directory, records=True)
    batches = [one for one in found if one["kind"] == "batch"]
    headers = [header for header, _ in batches_of(log)]
    assert [(one["base_offset"], one["last_offset"], one["records"]) for one in batches] == [
        (header.base_offset, header.last_offset, header.records_count) for header in headers
    ]
    missing = sum(int(str(one["missing_before"])) for one in batches)
    covered = sum(header.last_offset_delta + 1 for header in headers)
    assert missing == log.end_offset - covered, "holes are told"
    records = [one for one in found if one["kind"] == "record"]
    assert len(records) + 1 == sum(header.records_count for header in headers)
    assert records[-1]["value_base64"] == "/w=="
    assert [one for one in found if one["kind"] == "control"] == [
        {"kind": "control", "offset": log.end_offset - 1, "timestamp": NOW_MS, "type": "ABORT",
         "coordinator_epoch": 3}
    ]  # fmt: skip
    [aborted] = lines(Path(log.active_segment.transactions.path))
    assert (aborted["producer_id"], aborted["last_offset"]) == (7, log.end_offset - 1)
    snapshot = Path(log.directory, f"{log.end_offset:020d}.snapshot")
    assert [one["producer_id"] for one in lines(snapshot)] == [7]
    for segment in log.segments.all:
        ours = [
            (int(str(one["offset"])) - segment.base_offset, one["position"])
            for one in lines(Path(segment.offsets.path))
        ]
        assert segment.offsets.attach()
        assert ours == [segment.offsets.at(slot) for slot in range(len(segment.offsets))]
    assert not [one for one in found if one["kind"] == "damage"]


def test_a_delete_horizon_is_shown(fast_dir: str, make_log: Callable[..., Log]) -> None:
    log = make_log()
    batch = retain(build_batch([Record(b"k", None)]), lambda _: True, delete_horizon_ms=NOW_MS)
    assert batch is not None
    log.append_as_follower(bytes(batch), NOW_MS)
    log.close()
    [line] = lines(Path(log.active_segment.path))
    assert line["delete_horizon"] == NOW_MS


MEMBER = StoredMember("m", None, "c", "/h", 1, 2, b"\x00", b"\x01")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            OffsetRecord("g", "t", 3, CommittedOffset(7, 1, "note", 9)),
            {"group": "g", "topic": "t", "partition": 3, "offset": 7, "leader_epoch": 1,
             "metadata": "note", "commit_timestamp_ms": 9, "expire_timestamp_ms": -1},
        ),
        (OffsetRecord("g", "t", 3, None),
         {"group": "g", "topic": "t", "partition": 3, "tombstone": True}),
        (GroupRecord("g", None), {"group": "g", "metadata_of_group": True, "tombstone": True}),
        (
            GroupRecord("g", StoredGroup("consumer", 4, "range", "m", 5, (MEMBER,))),
            {"group": "g", "protocol_type": "consumer", "generation": 4, "protocol_name": "range",
             "leader": "m", "state_timestamp_ms": 5, "members": [{
                 "member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h",
                 "rebalance_timeout_ms": 1, "session_timeout_ms": 2,
                 "subscription_base64": "AA==", "assignment_base64": "AQ=="}]},
        ),
    ],
)  # fmt: skip
def test_records_of_the_offsets_topic_are_shown_by_what_they_say(
    record: CoordinatorRecord, said: Line
) -> None:
    assert readable(*encode(record)) == said


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def test_no_bytes_of_a_coordinators_record_raise_anything(seed: int) -> None:
    dice = random.Random(seed)
    key, value = encode(OffsetRecord("group", "topic", 3, CommittedOffset(7, 1, "note", 9)))
    changed = [bytearray(key), bytearray(value or b"")]
    for one in changed:
        for _ in range(dice.randrange(4)):
            one[dice.randrange(len(one))] = dice.randrange(256)
        del one[dice.randrange(len(one) + 1) :]
    json.dumps(readable(bytes(changed[0]), dice.choice((None, bytes(changed[1])))))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_of_every_kind_become_lines(fast_dir: str, kind: str) -> None:
    """Cut off, with flipped bits, with bytes put in between, or of noise: never an exception, and
    every line is JSON."""
    log = filled(fast_dir, 1)
    log.close()
    paths = [path for path in readable_files(RealDisk(), log.directory) if f".{kind}" in path]
    for seed in range(40):
        dice = random.Random(seed)
        path = Path(dice.choice(paths))
        damaged = Path(fast_dir) / path.name
        damaged.write_bytes(changed(path.read_bytes(), dice))
        for line in lines(damaged, records=True, readable=readable):
            json.dumps(line)


def changed(whole: bytes, dice: random.Random) -> bytes:
    data = bytearray(whole if dice.random() < 0.9 else dice.randbytes(300))
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(3):
            case 0:
                data[at:at] = dice.randbytes(dice.randrange(1, 70))
            case 1:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case _:
                del data[at : at + dice.randrange(100)]
    return bytes(data)


def test_damage_is_a_line_between_the_batches_around_it(
    fast_dir: str, make_log: Callable[..., Log], batch: Callable[..., bytearray]
) -> None:
    log = make_log()
    for _ in range(3):
        log.append(batch(2), leader_epoch=0, now_ms=NOW_MS)
    log.close()
    path = Path(log.active_segment.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = lines(path)
    assert [one["kind"] for one in found] == ["batch", "damage", "batch"]
    assert (found[1]["from_offset"], found[1]["to_offset"]) == (2, 4)


def test_a_large_file_is_read_in_pieces(fast_dir: str) -> None:
    """Of 24 MB of batches, and of an index of 1 MB, no more than a chunk or two is held."""
    segment = Path(fast_dir) / f"{0:020d}.log"
    index = Path(fast_dir) / f"{0:020d}.index"
    one = bytes(build_batch([Record(b"k", bytes(60_000))]))
    with segment.open("wb") as out:
        for number in range(400):
            out.write(number.to_bytes(8, "big") + one[8:])
    index.write_bytes(b"".join(n.to_bytes(4, "big") * 2 for n in range(1 << 17)))
    tracemalloc.start()
    counts = {path: sum(1 for _ in dump_file(RealDisk(), str(path))) for path in (segment, index)}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts == {segment: 400, index: 1 << 17}
    assert peak < 6 << 20


@pytest.mark.slow
def test_the_command_dumps_a_partition_by_its_name_and_says_by_its_status_what_it_found(
    tmp_path: Path,
) -> None:
    """Beside a broker or not; the offsets topic readable unless bytes are asked for."""
    directory = tmp_path / "broker" / "data"
    log = Log(f"{directory}/__consumer_offsets-3", disk=RealDisk(), config=topic_config(
        random.Random(1)), now_ms=NOW_MS)  # fmt: skip
    key, value = encode(OffsetRecord("g", "t", 0, CommittedOffset(7, -1, "", 9)))
    log.append(build_batch([Record(key, value)]), leader_epoch=0, now_ms=NOW_MS)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deploy", "--set", f"site.data_dir={tmp_path}", "log", "dump",
             *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    path = log.directory
    done = run(path, "--records", "--json")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [one.get("group") for one in said if one["kind"] == "record"] == ["g"]
    raw = run(path, "--records", "--raw")
    assert raw.returncode == 0, raw.stderr
    assert "key_base64" in raw.stdout or "\N{REPLACEMENT CHARACTER}" in raw.stdout
    Path(log.active_segment.path).write_bytes(b"nothing of ours")
    assert run(path).returncode == 1
    assert run("no.topic-0").returncode == 1
