"""The figures from capture to store: which programs measure them, and how moments are found."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import islice

import psutil
import pytest

from deploy.bench.ingest import edge_load, latencies, measure
from deploy.bench.ingest.broker_death import longest_s
from deploy.bench.ingest.cpu_quota import held_to
from deploy.bench.ingest.watchers import moment_of
from deploy.bench.report import FIGURES
from deploy.errors import OperatorError

BUSY_S = 2.0


def test_every_figure_has_exactly_one_program():
    """None is left out of a full run, and none is measured twice."""
    measured = [figure for _, figures, _ in measure.PROGRAMS for figure in figures]
    assert sorted(measured) == sorted(n for n in FIGURES if n.startswith(measure.PREFIX))


def test_figures_are_chosen_by_how_they_begin():
    """A word that begins none is an error that names the nearest."""
    assert measure.chosen("gap") == ["ingest-gap-1", "ingest-gap-2"]
    assert len(measure.chosen("")) > 15
    with pytest.raises(OperatorError, match="gap"):
        measure.chosen("gpa-1")


def test_the_longest_time_counts_from_and_to_the_ends_of_its_span():
    """What never came again is no short gap; what lies outside is none at all."""
    assert longest_s([900, 1100, 1500, 1600], 1000, 1700) == 0.4
    assert longest_s([1100], 1000, 3000) == 1.9
    assert longest_s([], 1000, 3000) == 2.0


def test_a_batch_that_nobody_saw_counts_with_the_next_that_was_seen():
    """Two quick commits between two looks: the first is not earlier than the look that found both.
    """
    seen = {10: 1000, 30: 1200}
    assert [moment_of(seen, batch) for batch in (10, 20, 30, 31)] == [1000, 1200, 1200, None]


def test_requests_are_due_at_their_rate_or_when_the_one_before_was_answered():
    """With an interval they do not wait for a slow answer; without one they are back to back."""
    assert list(edge_load._times(0.0, 1.0, 0.25)) == [0.0, 0.25, 0.5, 0.75]
    began = time.monotonic()
    assert all(at >= began for at in islice(edge_load._times(began, began + 60, 0.0), 5))


def test_missing_alarms_are_no_percentile():
    """Those that were never raised would be left out of it."""
    minute = latencies.MeasuredWindow(0, 60_000, 500)
    moments = range(0, 60_000, 100)
    raised = [(at, 200) for at in moments]
    assert latencies.Delays([], raised).raised_s(minute, 99) == 0.2
    with pytest.raises(OperatorError, match="alarms were raised"):
        latencies.Delays([], raised[20:]).raised_s(minute, 99)


def test_only_what_was_captured_in_a_window_counts_for_it():
    """A city's servers are measured at one rate after the other, by one list of records."""
    slow, fast = latencies.MeasuredWindow(0, 60_000, 100), latencies.MeasuredWindow(60_000, 120_000, 1000)
    stored = [(at, 100) for at in range(0, 60_000, 10)] + [(at, 900) for at in range(60_000, 120_000)]
    delays = latencies.Delays(stored, [])
    assert (delays.stored_s(slow, 99), delays.stored_s(fast, 50)) == (0.1, 0.9)
    with pytest.raises(OperatorError, match="make no percentile"):
        delays.stored_s(latencies.MeasuredWindow(120_000, 180_000, 100), 99)


def test_a_process_gets_no_more_of_a_core_than_it_is_held_to():
    """The kernel counts; a machine without control groups is an error that says so."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        process = psutil.Process(busy.pid)
        try:
            with held_to([busy.pid], 0.2):
                before, began = process.cpu_times(), time.monotonic()
                time.sleep(BUSY_S)
                after, passed = process.cpu_times(), time.monotonic() - began
        except OperatorError as error:
            pytest.skip(f"this machine has no control groups of its own: {error}")
        used = after.user + after.system - before.user - before.system
        assert used / passed < 0.35
    finally:
        busy.kill()
        busy.wait()
