"""How runs become a line of the table of benchmarks."""

import pytest

from deploy.bench.report import FIGURES, Samples, report_row
from deploy.bench.run import cells, page


def test_the_median_counts_and_the_ratio_is_of_medians():
    """One lucky run changes nothing."""
    line = report_row(Samples(figure="produce-single", ours=[10, 16, 900], kafka=[10, 10, 1]))
    assert (line.ours, line.kafka, line.ratio) == (16, 10, 1.6)
    assert line.must_met
    assert line.aim_met


def test_of_a_figure_of_the_worst_one_bad_run_is_what_counts():
    """An operator waits for the worst of ten deaths, not for the median."""
    runs = [0.2, 0.9, 0.25]
    line = report_row(Samples(figure="ingest-broker-leader-kraft", ours=runs))
    assert (line.ours, line.must_met) == (0.9, False)
    assert line.ours_runs == tuple(runs)


@pytest.mark.parametrize(
    ("figure", "ours", "kafka", "must", "aim"),
    [
        ("consume-hot", 99, 100, False, False),
        ("consume-hot", 100, 100, True, False),
        ("ack-idle", 0.5, 1.0, True, False),
        ("ack-idle", 0.51, 1.0, False, False),
        ("ack-idle", 0.2, 1.0, True, True),
        ("memory", 151, 400, False, False),
        ("memory", 80, 400, True, True),
        ("stored", 1.2, None, True, False),
        ("backlog", 40_000, None, True, True),
    ],
)
def test_the_bounds_are_reached_exactly_or_not(figure, ours, kafka, must, aim):
    """More is better or less is better, ratio or value, as the figure says."""
    line = report_row(Samples(figure=figure, ours=[ours], kafka=[kafka] if kafka else []))
    assert (line.must_met, line.aim_met) == (must, aim)


def test_a_comparison_without_the_other_side_reaches_nothing():
    """A missing Kafka is no victory."""
    line = report_row(Samples(figure="produce-single", ours=[10_000]))
    assert not line.must_met
    assert cells(line)[-1] == "MISSED"


def test_the_page_shows_what_was_measured_and_names_what_was_not():
    """Never a number that was not measured."""
    line = report_row(Samples(figure="backlog", ours=[31_000, 30_000, 29_000]))
    kept = {"backlog": {"measured": "2026-01-02", "cells": cells(line), "machine": {"cores": "2"}}}
    text = page(kept)
    assert "| 3 | 30,000 records/s |" in text
    assert "2026-01-02" in text
    assert "2026-01-02 (1)" in text
    assert "1. cores: 2" in text
    for name, figure in FIGURES.items():
        assert (figure.title in text.split("Not measured yet: ")[1]) == (name != "backlog")
