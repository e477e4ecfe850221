"""The page of metrics of a process without HTTP of its own."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from bus.metrics import page as metrics_page
from bus.metrics.server import NO_PORT, MetricsServer


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("made", "Help.", registry=made).inc()
    return made


def test_the_page_shows_the_registry_and_that_the_process_lives(
    registry: CollectorRegistry,
) -> None:
    page = MetricsServer("127.0.0.1", 0, registry)
    assert "made_total 1.0" in fetch(page.port, "/metrics")
    assert fetch(page.port, "/healthz") == "ok\n"
    page.close()
    with pytest.raises(OSError):
        fetch(page.port, "/metrics")


def test_a_port_that_is_taken_and_none_at_all_end_nothing(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    first = MetricsServer("127.0.0.1", 0, registry)
    second = MetricsServer("127.0.0.1", first.port, registry)
    assert second.port == NO_PORT
    assert f"no page of metrics at 127.0.0.1:{first.port}" in caplog.text
    second.close()
    none = MetricsServer("127.0.0.1", NO_PORT, registry)
    assert none.port == NO_PORT
    none.close()
    assert "made_total" in fetch(first.port, "/metrics")
    first.close()


def test_who_asks_nothing_is_cut_off_and_stops_nobody(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_page, "REQUEST_S", 0.3)
    page = MetricsServer("127.0.0.1", 0, registry)
    silent = [socket.create_connection(("127.0.0.1", page.port), 10) for _ in range(20)]
    assert "made_total" in fetch(page.port, "/metrics")
    for one in silent:
        with pytest.raises(ConnectionResetError):
            one.recv(1) or (_ for _ in ()).throw(ConnectionResetError)
        one.close()
    page.close()
