"""Cleans logs with our cleaner, in a process of its own, as ``CleanLog.java`` does with Apache
Kafka's: the same lines in; out the offset from which the log is dirty then, the seconds that the
pass took, the most memory of its own that the process had in kB.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from broker.disk.real import RealDisk
from broker.log.cleaner.model import (
    CleanerLimits,
    CleanerSettings,
    CompactedLog,
    PassResult,
    SegmentSummary,
)
from broker.log.cleaner.passes import run_pass
from broker.log.cleaner.plan import cleaning_pass, dirty_log

INDEX_BYTES = 10 << 20


def main() -> None:
    """A line for each line."""
    limits = CleanerLimits(int(sys.argv[1]), 0.9, 1 << 19)
    for line in sys.stdin:
        directory, *numbers = line.split()
        log, now_ms = _log(Path(directory), list(map(int, numbers)))
        cleaning = cleaning_pass(dirty_log(log, now_ms), (), limits, now_ms)
        began = time.perf_counter()
        *_, result = run_pass(RealDisk(), cleaning, lambda count: None)
        seconds = time.perf_counter() - began
        if not isinstance(result, PassResult) or result.uncleanable:
            raise SystemExit(f"not cleaned: {result}")
        print(result.next_dirty_offset, seconds, _peak_kb(), flush=True)


def _peak_kb() -> int:
    """Of this process alone; what getrusage says begins with its parent's. Without the pages of
    files: the code of libraries is the broker's, too, and a machine holds it once."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kb = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
          if name in ("VmHWM", "RssFile")}  # fmt: skip
    return kb["VmHWM"] - kb["RssFile"]


def _log(directory: Path, numbers: list[int]) -> tuple[CompactedLog, int]:
    first_dirty, end, now_ms, retention_ms, segment_bytes, interval_bytes = numbers
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    segments = tuple(
        SegmentSummary(base, following, (directory / f"{base:020d}.log").stat().st_size, 0, 0,
                       now_ms, now_ms)
        for base, following in zip(bases, [*bases[1:], end + 1], strict=True)
    )  # fmt: skip
    settings = CleanerSettings(
        min_cleanable_dirty_ratio=0, min_compaction_lag_ms=0, max_compaction_lag_ms=2**63 - 1,
        delete_retention_ms=retention_ms, segment_bytes=segment_bytes,
        segment_index_bytes=INDEX_BYTES, index_interval_bytes=interval_bytes, is_deleting=False,
    )  # fmt: skip
    log = CompactedLog(
        directory=str(directory), topic="table", index=0, generation=0, segments=segments,
        log_start_offset=0, high_watermark=end, last_stable_offset=end, recovery_point=end,
        first_dirty_offset=first_dirty, settings=settings,
    )  # fmt: skip
    return log, now_ms


if __name__ == "__main__":
    main()
