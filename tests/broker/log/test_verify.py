"""`databus broker verify` and the slow scrub name what has rotted in a data directory."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.real import RealDisk
from broker.log import scrub
from broker.log.manager import LogManager
from broker.log.verify import DamagedRange, VerifyResult, verify

NOW_MS = 1_760_000_000_000
Batch = Callable[..., bytearray]


@pytest.fixture
def logs(fast_dir: str, batch: Batch) -> LogManager:
    """Topic `t`, one partition: three segments of four batches of two records."""
    config = BrokerConfig.from_mapping({"log.dirs": f"{fast_dir}/a", "node.id": "1"})
    made = LogManager(config=config, disk=RealDisk(), clock=RealClock())
    made.prepare()
    made.load(lambda topic: TopicConfig())
    log = made.create("t", 0, bytes(range(16)), TopicConfig())
    for number in range(12):
        if number in (4, 8):
            log.roll(NOW_MS)
        log.append(batch(2, size=40), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    return made


def flip(logs: LogManager, segment: int, part: float) -> Path:
    """One bit of a segment file."""
    path = Path(logs.logs()[0].segments.all[segment].path)
    data = bytearray(path.read_bytes())
    data[int(len(data) * part)] ^= 4
    path.write_bytes(data)
    return path


def found(logs: LogManager) -> VerifyResult:
    [one] = verify(RealDisk(), logs.directories[0], records=True, pause=lambda: None)
    return one


def test_a_sound_directory_is_read_whole(logs: LogManager) -> None:
    outcome = found(logs)
    assert outcome.damaged == []
    assert (outcome.segments, outcome.batches) == (3, 12)
    assert outcome.bytes == logs.logs()[0].size_bytes


def test_each_damaged_batch_is_named_with_its_offsets(logs: LogManager) -> None:
    """In a closed segment and in the newest one; the others are counted."""
    paths = [str(flip(logs, 0, 0.6)), str(flip(logs, 2, 0.1))]
    outcome = found(logs)
    assert outcome.batches == 10
    assert [(one.path, one.from_offset, one.to_offset) for one in outcome.damaged] == [
        (paths[0], 4, 6), (paths[1], 16, 18),
    ]  # fmt: skip
    assert {one.fault for one in outcome.damaged} == {"the CRC does not match"}


def test_what_a_running_broker_has_not_finished_writing_is_no_damage(logs: LogManager) -> None:
    """The newest segment is looked at again."""
    log = logs.logs()[0]
    path = Path(log.active_segment.path)
    data = path.read_bytes()
    path.write_bytes(data[:-10])
    [one] = verify(
        RealDisk(), logs.directories[0], records=True, pause=lambda: _write(path, data)
    )
    assert one.damaged == []


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def test_the_command_names_the_places_and_says_so_by_its_exit_status(
    logs: LogManager, tmp_path: Path
) -> None:
    path = flip(logs, 1, 0.5)
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={logs.directories[0]}\n")
    words = [sys.executable, "-m", "deploy", "broker", "verify", "--config", str(config), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [DamagedRange(**one).path for one in told["damaged"]] == [str(path)]
    path.write_bytes(path.read_bytes()[:0])
    other = subprocess.run([*words, "other"], capture_output=True, text=True, check=False)
    assert other.returncode == 0


def test_the_scrub_names_rot_in_closed_segments_once_and_counts_it(
    logs: LogManager, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round after round; the active segment is not its business."""
    caplog.set_level(logging.ERROR)
    monkeypatch.setattr(scrub, "REST_S", 0.0)
    rotten = flip(logs, 1, 0.5)
    flip(logs, 2, 0.5)
    closed = sum(segment.size_bytes for segment in logs.logs()[0].segments.all[:-1])
    looking = scrub.LogScrubber(logs.logs, logs.disk, RealClock(), 1 << 40)

    async def three_rounds() -> None:
        task = asyncio.ensure_future(looking.run())
        while looking._read_bytes < 3 * closed:
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(three_rounds())
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" is damaged")[0] for line in lines] == [str(rotten)]
    assert len(looking._known) == 1
