"""The figures of `bench alarms`."""

from __future__ import annotations

from deploy.bench.alarms import measure
from deploy.bench.report import FIGURES


def test_each_figure_has_one_run_that_measures_it() -> None:
    """And each run measures figures that the table knows."""
    measured = [name for _, names, _ in measure._RUNS for name in names]
    assert sorted(measured) == sorted(name for name in FIGURES if name.startswith(measure.PREFIX))
