"""The open incidents follow from the topic."""

from __future__ import annotations

from typing import Literal

from bus.contracts.alarms import Incident
from spark_apps.incidents import still_open


def incident(incident_id: str, state: Literal["open", "closed"], kind: str = "latency") -> Incident:
    return Incident(incident_id=incident_id, kind=kind, state=state, opened_at_ms=1)  # type: ignore[arg-type]


def test_open_are_those_opened_and_not_closed() -> None:
    """Only incidents of the requested kind count."""
    told = [incident("a", "open"), incident("b", "open"), incident("a", "closed"),
            incident("q", "open", "quality"), incident("b", "open")]  # fmt: skip
    assert [i.incident_id for i in still_open(told, "latency")] == ["b"]
