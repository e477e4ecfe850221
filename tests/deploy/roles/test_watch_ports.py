"""What the watch asks by itself on this machine, and what its settings add to that."""

from __future__ import annotations

from alarm.dispatch.recorded_changes import RECORDED_TOPICS
from deploy.roles.watch_ports import RECORDER, watch_ports, watch_settings
from deploy.settings.composed import load
from spark_apps.settings import APART


def health(*flags: str) -> dict[str, str]:
    return watch_settings(load(flags=flags, environment={})).health


def test_edge_console_dispatcher_and_every_driver_are_asked_where_they_answer() -> None:
    """A driver without a supervisor was never seen to be away."""
    found = health("streams.metrics_host=0.0.0.0", "dispatcher.metrics_port=9000")
    assert found["edge"] == "http://127.0.0.1:8650/healthz"
    assert found["console"] == "http://127.0.0.1:8651/healthz"
    assert found["dispatcher"] == "http://127.0.0.1:9000/healthz"
    assert found["streams"] == "http://127.0.0.1:8654/healthz"
    apart = [found[f"streams-{driver}"] for driver in APART]
    assert apart == [f"http://127.0.0.1:{8655 + n}/healthz" for n in range(len(APART))]


def test_the_settings_add_to_these_replace_one_and_leave_one_out() -> None:
    """One address of one's own used to end the watch over edge and console."""
    found = health(
        "watch.health.gateway=http://10.0.0.9/ok",
        "watch.health.streams-ingest=http://10.0.0.7:8656/healthz",
        "watch.health.console=",
    )
    assert found["gateway"] == "http://10.0.0.9/ok"
    assert found["streams-ingest"] == "http://10.0.0.7:8656/healthz"
    assert "console" not in found
    assert "edge" in found


def test_a_process_without_a_page_is_not_asked() -> None:
    found = health("streams.metrics_port=-1", "dispatcher.metrics_port=0")
    assert set(found) == {"edge", "console"}


def test_every_edge_is_asked_for_its_spool() -> None:
    """A city has one at each place where servers post to."""
    flags = ["watch.health.edge-2=http://10.0.0.8:8650/healthz"]
    ports = watch_ports(load(flags=flags, environment={}))
    assert ports.edge_status_urls == {
        "edge": "http://127.0.0.1:8650/v1/status", "edge-2": "http://10.0.0.8:8650/v1/status",
    }  # fmt: skip


def test_the_recorder_is_judged_by_every_topic_that_it_stores() -> None:
    """Passages and states of alarms could wait for hours and nobody was told."""
    assert set(RECORDER.topics) == set(RECORDED_TOPICS)
