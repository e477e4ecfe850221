"""The bench of fuzzy rules: how recall is measured, and that all of it runs."""

from __future__ import annotations

import pytest

from deploy.bench.fuzzy import cost, measure, recall
from deploy.bench.fuzzy.recall import ScoredReading, recall_at
from deploy.errors import OperatorError


def test_figures_are_chosen_by_their_first_words() -> None:
    assert measure.chosen("us") == ["fuzzy-us", "fuzzy-us-growth"]
    assert len(measure.chosen("")) == 4
    with pytest.raises(OperatorError, match="known: fuzzy-us"):
        measure.chosen("speed")


def test_recall_is_taken_in_order_of_the_score_until_so_many_are_others() -> None:
    scored = [
        *[ScoredReading(0.0, True)] * 4,
        ScoredReading(0.0, False),
        *[ScoredReading(0.5, True)] * 2,
        *[ScoredReading(0.5, False)] * 4,
        ScoredReading(0.9, True),
    ]
    assert recall_at(5, scored, 10) == pytest.approx(0.7)
    assert recall_at(3, scored, 10) == pytest.approx(0.5)  # half of what costs 0.5
    assert recall_at(0, scored, 10) == 0


def test_the_lower_end_lies_below_the_mean_by_its_error() -> None:
    assert measure.lower_end([10, 10, 10, 10, 10]) == 10
    assert measure.lower_end([8, 9, 10, 11, 12]) == pytest.approx(10 - 2.776 * 0.7071, abs=1e-3)


@pytest.mark.slow
def test_both_recalls_are_of_the_same_readings() -> None:
    found = recall.compare(1, fleet=3000, readings=3000, targets=100)
    assert 0 < found.plain <= 1
    assert 0 < found.fuzzy <= 1
    assert found == recall.compare(1, fleet=3000, readings=3000, targets=100)


@pytest.mark.slow
def test_the_cost_of_a_record_is_measured() -> None:
    assert 1 < cost.us_per_record(1, rules=50, batches=2) < 100_000
