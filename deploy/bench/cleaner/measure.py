"""`bench cleaner`: our cleaner and Apache Kafka's own on the same segments, in turns; what a pass
costs the broker beside it.

In: which figures, how often. Out: samples, ours and Kafka's. Each side cleans its own copy of the
files, in a process of its own; Kafka's has cleaned a small log before, so that its code is
compiled. The figures of a month (`month`) are ours alone, and run once. Never: an end because one
figure cannot be measured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from broker.cleaner_process.real import CHILD_ENVIRONMENT
from bus.records.compression import Compression
from deploy.bench.cleaner import beside, month
from deploy.bench.cleaner.made_logs import NOW_MS, BenchLog, BenchRecords, make_log
from deploy.bench.program import answer_of_program, module_command
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt, chosen_figures
from deploy.errors import OperatorError
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PREFIX = "cleaner-"
WORKLOADS = (
    BenchRecords(PREFIX + "plain", 1 << 30, 1024, 16, 10),
    BenchRecords(PREFIX + "zstd", 1 << 30, 1024, 16, 10, Compression.ZSTD),
    BenchRecords(PREFIX + "offsets", 100 << 20, 100, 1, 100),
)
"""Of `offsets` each record is a batch of its own, as a commit of one partition leaves it."""
RECORDS_PER_SECOND = (PREFIX + "offsets",)
MEMORY = PREFIX + "memory"
LOAD = PREFIX + "load"
LOAD_PIECE = PREFIX + "load-piece"
SWAP_PIECE = PREFIX + "swap-piece"
LOADED_KEYS = 200_000
SWAPPED_SEGMENTS = 500
WARM_UP_SHARE = 20
"""What Kafka cleans before, as a part of the whole."""

DEDUPE_BYTES = 128 << 20
DELETE_RETENTION_MS = 86_400_000
SEGMENT_BYTES = 1 << 30
INTERVAL_BYTES = 4096
TIMEOUT_S = 900
JAVA_FILE = Path(__file__).with_name("CleanLog.java")


def chosen(only: str) -> list[str]:
    """`plain,zstd` as names of figures; `month` is all of a month."""
    return chosen_figures(PREFIX, only)


def measure(
    names: Sequence[str], repeat: int, say: Say, days: float = month.DAYS
) -> Iterator[Samples]:
    """Pairs, one side after the other; then the month, if it is asked for."""
    recorder = SampleRecorder(names, repeat, say)
    yield from _measure_pairs(names, repeat, recorder, say)
    if set(names) & set(month.FIGURES_OF_A_MONTH):
        attempt("a month", partial(month.measure, names, days, recorder, say), say)
        yield from recorder.samples()


def _measure_pairs(
    names: Sequence[str], repeat: int, recorder: SampleRecorder, say: Say
) -> Iterator[Samples]:
    with TemporaryDirectory(prefix="databus-cleaner-") as folder:
        for workload in WORKLOADS:
            if workload.name in names or (MEMORY in names and workload is WORKLOADS[0]):
                for _ in range(repeat):
                    _measure_pair(workload, Path(folder), recorder, names, say)
                    yield from recorder.samples()
                shutil.rmtree(folder, ignore_errors=True)
    if wanted := tuple(name for name in names if name in beside.FIGURES):
        with TemporaryDirectory(prefix="databus-cleaner-") as folder:
            for _ in range(repeat):
                work = partial(beside.measure_pair, Path(folder), recorder, wanted)
                attempt("a pass beside acknowledgements", work, say)
                yield from recorder.samples()
    for _ in range(repeat):
        _measure_pieces(names, recorder, say)
        yield from recorder.samples()


def _measure_pieces(names: Sequence[str], recorder: SampleRecorder, say: Say) -> None:
    """How long the loop is held at a time."""
    if LOAD in names or LOAD_PIECE in names:
        found = attempt(LOAD, partial(_pieces, "load", LOADED_KEYS), say)
        if found is not None:
            for name, value in ((LOAD, found[0]), (LOAD_PIECE, found[1])):
                if name in names:
                    recorder.add(name, value, of="ours")
    if SWAP_PIECE in names:
        found = attempt(SWAP_PIECE, partial(_pieces, "swap", SWAPPED_SEGMENTS), say)
        if found is not None:
            recorder.add(SWAP_PIECE, found[1], of="ours")


def _pieces(what: str, amount: int) -> tuple[float, float]:
    """Seconds of it all, milliseconds of its longest piece."""
    command = module_command("deploy.bench.cleaner.loop_pieces", what, str(amount))
    said = answer_of_program(command, what, TIMEOUT_S)
    return said["seconds"], max(said["longest_ms"])


def _measure_pair(
    workload: BenchRecords, folder: Path, recorder: SampleRecorder, names: Sequence[str], say: Say
) -> None:
    for side in (_ours, _kafkas):
        found = attempt(workload.name, partial(side, workload, folder), say)
        if found is None:
            continue
        rate, memory_mb = found
        is_kafka = side is _kafkas
        of = "Apache Kafka" if is_kafka else "ours"
        if workload.name in names:
            recorder.add(workload.name, rate, of=of, is_kafka=is_kafka)
        if memory_mb and MEMORY in names and workload is WORKLOADS[0]:
            recorder.add(MEMORY, memory_mb, of=of)


def _ours(workload: BenchRecords, folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "deploy.bench.cleaner.our_cleaner", str(DEDUPE_BYTES)]
    log = _copy(workload, folder)
    seconds, peak_kb = _cleaned(command, [log])
    return _rate(workload, log, seconds), peak_kb / 1000


def _kafkas(workload: BenchRecords, folder: Path) -> tuple[float, float]:
    class_path = ":".join(map(str, kafka_jars()))
    command = [str(ensure_java()), "-cp", class_path, str(JAVA_FILE), str(DEDUPE_BYTES)]
    small = workload._replace(
        name=workload.name + "-small", total_bytes=workload.total_bytes // WARM_UP_SHARE
    )
    log = _copy(workload, folder)
    seconds, _ = _cleaned(command, [_copy(small, folder), log])
    return _rate(workload, log, seconds), 0


def _rate(workload: BenchRecords, log: BenchLog, seconds: float) -> float:
    """Megabytes, or records, a second."""
    amount = log.end_offset if workload.name in RECORDS_PER_SECOND else log.size_bytes / 1e6
    return amount / seconds


def _copy(workload: BenchRecords, folder: Path) -> BenchLog:
    """A fresh copy of the workload's log, which is made once."""
    made, used = folder / "made" / workload.name, folder / "used" / workload.name
    if not made.exists():
        log = make_log(workload, made)
        (made / "log").write_text(f"{log.end_offset} {log.size_bytes}")
    end_offset, size_bytes = map(int, (made / "log").read_text().split())
    shutil.rmtree(used, ignore_errors=True)
    shutil.copytree(made / "table-0", used / "table-0")
    return BenchLog(used / "table-0", end_offset, size_bytes)


def _cleaned(command: list[str], logs: Sequence[BenchLog]) -> tuple[float, int]:
    """Seconds of the last log's cleaning, and what else is answered."""
    lines = "".join(
        f"{log.directory} 0 {log.end_offset} {NOW_MS} {DELETE_RETENTION_MS} "
        f"{SEGMENT_BYTES} {INTERVAL_BYTES}\n"
        for log in logs
    )
    done = subprocess.run(command, input=lines, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False,
                          env={**os.environ, **CHILD_ENVIRONMENT})  # fmt: skip
    if done.returncode:
        raise OperatorError(f"the cleaner ended with {done.returncode}: {done.stderr[-400:]}")
    end_offset, seconds, *rest = done.stdout.splitlines()[-1].split()
    if int(end_offset) != logs[-1].end_offset:
        raise OperatorError(f"cleaned up to {end_offset}, not {logs[-1].end_offset}")
    return float(seconds), int(rest[0]) if rest else 0
