"""Groups, produce, fetch: what Kafka answers to producers and consumers."""

from __future__ import annotations

from tests.conformance.answers.case import Row

ROWS: list[Row] = []
