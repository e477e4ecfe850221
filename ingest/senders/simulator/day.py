"""Writes a day of the city into a file for `replay`.

One JSON object per line, gzip where the name ends in `.gz`: `{"kind": "vehicle", "id": "own-…",
"record": {…}}`, or `"raw": "<base64>"` for a record that is no JSON. The same settings give the
same bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, cast
from zoneinfo import ZoneInfo

import msgspec

from bus.settings import SiteSettings
from ingest.senders.simulator.generator import GeneratedRecord, RecordGenerator
from ingest.senders.simulator.settings import CitySettings
from ingest.senders.simulator.traffic import HOUR_MS
from ingest.senders.simulator.world import build_world

STEP_MS = 60_000


@dataclass(slots=True)
class Written:
    """What the file holds: records, and per kind how many are valid or why not."""

    records: int = 0
    expected: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, made: GeneratedRecord) -> None:
        """Count one."""
        self.records += 1
        self.expected.setdefault(made.line.kind, Counter())[made.line.expected] += 1


def local_start_ms(text: str, zone: ZoneInfo) -> int:
    """`2026-01-01` or `2026-01-01 08:00:00` of the site; empty means today, midnight."""
    today = datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    local = datetime.fromisoformat(text) if text else today
    return int(local.replace(tzinfo=zone).timestamp() * 1000)


def write_day_file(
    path: Path,
    site: SiteSettings,
    city: CitySettings,
    start_ms: int,
    hours: float,
    *,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Written:
    """Write the file (replacing one that is there) and say what it holds."""
    written = Written()
    fresh = path.with_name(path.name + ".new")
    with _open(fresh, zipped=path.suffix == ".gz") as file:
        for made in day_records(site, city, start_ms, hours):
            file.write(day_line(made) + b"\n")
            written.add(made)
            if written.records % 10_000 == 0:
                on_progress(written.records)
    fresh.replace(path)
    return written


def day_records(
    site: SiteSettings, city: CitySettings, start_ms: int, hours: float
) -> Iterator[GeneratedRecord]:
    """All records of these hours; the city's clock is the file's."""
    world = build_world(city.seed, site.name)
    wall = msgspec.structs.replace(city, hour=-1.0)
    assembly = RecordGenerator(world, wall, site.tz, run=f"day-{start_ms:x}", start_ms=start_ms)
    end_ms = start_ms + int(hours * HOUR_MS)
    for until_ms in range(start_ms + STEP_MS, end_ms + STEP_MS, STEP_MS):
        yield from assembly.until(min(until_ms, end_ms))


def day_line(made: GeneratedRecord) -> bytes:
    """The envelope of one record."""
    head = json.dumps({"kind": made.line.kind, "id": made.line.id})[:-1].encode()
    if made.line.mishap == "garbled":
        raw = base64.b64encode(made.body)
        return head + b', "raw": "' + raw + b'"}'
    return head + b', "record": ' + made.body + b"}"


@contextmanager
def _open(path: Path, *, zipped: bool) -> Iterator[IO[bytes]]:
    """The time in gzip's header is left out, so that the same day is the same file."""
    with path.open("wb") as plain:
        if not zipped:
            yield plain
            return
        with gzip.GzipFile("", "wb", 6, plain, mtime=0) as file:
            yield cast("IO[bytes]", file)
