"""The open incidents follow from the topic."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import Incident
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.topics import EVENT_INCIDENT, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from spark_apps.publish.incidents import read_incidents, still_open


def incident(incident_id: str, state: Literal["open", "closed"], kind: str = "latency") -> Incident:
    return Incident(incident_id=incident_id, kind=kind, state=state, opened_at_ms=1)  # type: ignore[arg-type]


def test_open_are_those_opened_and_not_closed() -> None:
    """Only incidents of the requested kind count."""
    told = [incident("a", "open"), incident("b", "open"), incident("a", "closed"),
            incident("q", "open", "quality"), incident("b", "open")]  # fmt: skip
    assert [i.incident_id for i in still_open(told, "latency")] == ["b"]


@pytest.mark.slow
def test_an_incident_that_the_mirror_has_carried_here_is_not_gone_on_with(tmp_path: Path) -> None:
    """A driver took it for its own: it raised none itself, and what this site said of it was
    nobody's."""
    running = start_broker(tmp_path)
    try:
        bus = BusSettings(bootstrap_servers=running.bootstrap)
        admin = Admin(bus, client_id="test")
        admin.ensure_topics([TOPICS[EVENT_INCIDENT]])
        admin.close()
        producer = Producer(bus, client_id="test")
        origin = (MIRROR_ORIGIN, MirrorOrigin("another-cluster", 7).value)
        for name, headers in (("theirs", [origin]), ("ours", [])):
            body = msgspec.json.encode(incident(name, "open"))
            producer.send(EVENT_INCIDENT, body, key=name, headers=headers)
        assert producer.close() == 0
        assert [one.incident_id for one in read_incidents(bus)] == ["ours"]
    finally:
        running.stop()
