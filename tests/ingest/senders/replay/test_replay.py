"""A file is sent whole, at its pace, counted; a second time under the same identities."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from bus.contracts.meters import Sent
from bus.settings import SiteSettings
from ingest.senders.replay.lines import Recorded
from ingest.senders.replay.replay import ReplayOptions, replay
from ingest.senders.replay.routing import RoutedRecord
from ingest.senders.replay.source import RecordFile
from ingest.senders.simulator.day import write_day_file
from ingest.senders.simulator.settings import CitySettings

ZONE = "Asia/Shanghai"
START_MS = 1_700_000_000_000


@dataclass
class SimulatedClock:
    """Time that passes only by waiting."""

    ms: float = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.ms)

    def wait(self, seconds: float) -> None:
        self.ms += seconds * 1000


@dataclass
class RecordingSink:
    """A sink that notes what it was handed and when."""

    records: list[tuple[Recorded, RoutedRecord, int]] = field(default_factory=list)
    counters: list[Sent] = field(default_factory=list)
    flushed: int = 0

    def send(self, recorded: Recorded, judged: RoutedRecord, now_ms: int) -> None:
        self.records.append((recorded, judged, now_ms))

    def send_counters(self, counters: list[Sent]) -> None:
        self.counters += counters

    def flush(self) -> None:
        self.flushed += 1


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("day") / "day.jsonl.gz"
    city = CitySettings(rate=6.0, picture_every=0)
    write_day_file(path, SiteSettings(), city, START_MS, 0.05)
    return path


def replayed(path: Path, speed: float | None) -> tuple[RecordingSink, SimulatedClock]:
    ledger, clock = RecordingSink(), SimulatedClock()
    with RecordFile(path) as file:
        counts = replay(file, ledger, ReplayOptions(ZONE, speed), clock)
    assert counts.sent == len(ledger.records)
    return ledger, clock


def test_a_day_of_the_city_comes_back_as_it_was_written(day: Path) -> None:
    ledger, _ = replayed(day, None)
    lines = gzip.decompress(day.read_bytes()).splitlines()
    assert len(ledger.records) == len(lines) > 100
    outcomes = {judged.reason for _, judged, _ in ledger.records}
    assert "" in outcomes
    assert len(outcomes) > 3, "what is refused comes back, too"
    ids = [recorded.record_id for recorded, _, _ in ledger.records]
    assert ids == [msgspec.json.decode(line)["id"] for line in lines]


def test_at_own_pace_three_minutes_take_three_minutes_and_at_six_times_half_a_minute(
    day: Path,
) -> None:
    for speed, seconds in ((1.0, 180), (6.0, 30)):
        _, clock = replayed(day, speed)
        assert (clock.ms - 1_000_000) / 1000 == pytest.approx(seconds, rel=0.05)


def test_the_counters_add_up_to_what_was_sent_and_all_is_acknowledged_at_the_end(
    day: Path,
) -> None:
    ledger, _ = replayed(day, None)
    assert sum(counter.sent for counter in ledger.counters) == len(ledger.records)
    assert ledger.flushed == 1
    cells = {(c.kind, c.camera_ip, c.minute_ms, c.epoch) for c in ledger.counters}
    assert len(cells) == len(ledger.counters)


def test_a_plain_file_with_bad_lines_is_sent_whole(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_bytes(b'{"\xe5\x8d\xa1\xe5\x8f\xa3\xe7\xbc\x96\xe5\x8f\xb7": 1}\r\n\n{oops\n\xff\n')
    ledger, _ = replayed(path, 1.0)
    assert [judged.reason for _, judged, _ in ledger.records] == ["no-time", "not-json", "not-utf8"]
    again, _ = replayed(path, 1.0)
    assert [r.record_id for r, _, _ in again.records] == [r.record_id for r, _, _ in ledger.records]


def test_the_same_settings_write_the_same_day_to_the_byte(day: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl.gz"
    write_day_file(again, SiteSettings(), CitySettings(rate=6.0, picture_every=0), START_MS, 0.05)
    assert again.read_bytes() == day.read_bytes()
