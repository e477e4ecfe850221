"""The bench of the cleaners: what it cleans, and that both sides clean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.records.batch import iter_batches
from bus.records.compression import Compression
from deploy.bench.cleaner import beside, measure, month
from deploy.bench.cleaner.made_logs import BenchRecords, make_log
from deploy.bench.report import FIGURES
from deploy.errors import OperatorError

SMALL = BenchRecords("cleaner-plain", 1 << 20, 1024, 16, 10)


def test_each_figure_is_measured_and_each_has_a_name_to_choose_it_by() -> None:
    names = [workload.name for workload in measure.WORKLOADS]
    known = [name for name in FIGURES if name.startswith(measure.PREFIX)]
    others = [measure.MEMORY, measure.LOAD, measure.LOAD_PIECE, measure.SWAP_PIECE, *beside.FIGURES]
    others += month.FIGURES_OF_A_MONTH
    assert sorted([*names, *others]) == sorted(known)
    assert measure.chosen("zstd,memory") == ["cleaner-zstd", "cleaner-memory"]
    assert measure.chosen("month") == list(month.FIGURES_OF_A_MONTH)
    assert measure.chosen("") == known
    with pytest.raises(OperatorError):
        measure.chosen("speed")


def test_a_made_log_has_the_records_that_its_workload_says(tmp_path: Path) -> None:
    log = make_log(SMALL._replace(codec=Compression.ZSTD), tmp_path)
    files = sorted(log.directory.glob("*.log"))
    headers = [header for path in files for _, header in iter_batches(path.read_bytes())]
    assert sum(header.records_count for header in headers[:-1]) == log.end_offset == 1024
    assert {header.compression for header in headers[:-1]} == {Compression.ZSTD}
    assert headers[-1].base_offset == log.end_offset


def test_our_cleaner_leaves_the_live_tenth(tmp_path: Path) -> None:
    rate, memory_mb = measure._ours(SMALL, tmp_path)
    assert rate > 0
    assert memory_mb > 1
    cleaned = tmp_path / "used" / SMALL.name / "table-0" / f"{0:020d}.log.cleaned"
    records = sum(header.records_count for _, header in iter_batches(cleaned.read_bytes()))
    assert 90 < records <= 102


@pytest.mark.parametrize(("what", "amount"), [("load", 300), ("swap", 12)])
def test_the_pieces_of_the_loop_are_measured(what: str, amount: int) -> None:
    seconds, longest_ms = measure._pieces(what, amount)
    assert seconds > 0
    assert longest_ms > 0


@pytest.mark.java
def test_both_cleaners_clean_the_same_log(tmp_path: Path) -> None:
    assert measure._kafkas(SMALL, tmp_path)[0] > 0
