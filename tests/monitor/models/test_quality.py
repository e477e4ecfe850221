"""Lasting gaps open one incident each, which names the device or the server behind them."""

from __future__ import annotations

import pytest

from bus.contracts.alarms import Incident
from bus.contracts.meters import QualityCell
from bus.contracts.register import Checkpoint, Device, Register
from bus.domain.times import MINUTE_MS
from monitor.models.hysteresis import Hysteresis
from monitor.models.quality import CellCounter, GapIncidents

RULE = Hysteresis(0.2, 0.1, 2, 2)
REGISTER = Register(
    checkpoints=(
        Checkpoint(checkpoint_id="c1", name="北门", name_en="North Gate", district_id="d1",
                   latitude=0, longitude=0),
    ),
    devices=(Device(camera_ip="10.0.0.1", checkpoint_id="c1", kind="vehicle", recognizer_ip="s"),),
)  # fmt: skip


def cell(
    minute: int, camera: str, sent: int, valid: int, server: str = "s", **rejected: int
) -> QualityCell:
    return QualityCell(
        kind="vehicle", camera_ip=camera, recognizer_ip=server, minute_ms=minute * MINUTE_MS,
        sent=sent, arrived=valid, valid=valid, rejected=rejected,
    )  # fmt: skip


@pytest.fixture
def watch() -> GapIncidents:
    return GapIncidents(RULE, REGISTER)


def run(watch: GapIncidents, minutes: list[list[QualityCell]]) -> list[Incident]:
    found: list[Incident] = []
    for minute, cells in enumerate(minutes, start=1):
        found += watch.judge(cells, (minute + 1) * MINUTE_MS)
    return found


def test_counts_of_a_batch_are_added_per_device_server_and_minute() -> None:
    """Every message is counted once: valid or rejected with its reason."""
    counter = CellCounter()
    key = ("vehicle", "10.0.0.1", "s", 0)
    counter.valid(key, partly_read=True)
    counter.valid(key, partly_read=False)
    counter.rejected(key, "no-time")
    (found,) = counter.increments()
    assert (found.arrived, found.valid, found.partly_read) == (3, 2, 1)
    assert (found.rejected, found.sent) == ({"no-time": 1}, 0)


def test_a_lasting_gap_names_device_server_and_place(watch: GapIncidents) -> None:
    """Operations learn where to drive to (Q-2, Q-3)."""
    (incident,) = run(watch, [[cell(m, "10.0.0.1", 60, 10, reason=50)] for m in (1, 2, 3, 4)])
    assert (incident.state, incident.camera_ip, incident.recognizer_ip) == ("open", "10.0.0.1", "s")
    assert (incident.checkpoint_id, incident.district_id) == ("c1", "d1")
    assert incident.detail["place"] == "北门"
    assert incident.detail["rejected:reason"] == "50"
    assert incident.opened_at_ms == MINUTE_MS


def test_a_short_gap_heals_by_itself(watch: GapIncidents) -> None:
    """One bad minute among good ones is a leaf."""
    minutes = [[cell(m, "10.0.0.1", 60, 10 if m % 2 else 60)] for m in range(1, 20)]
    assert run(watch, minutes) == []


def test_a_healed_device_closes_its_incident(watch: GapIncidents) -> None:
    """Opened once, closed once, under one id."""
    minutes = [[cell(m, "10.0.0.1", 60, 10 if m < 5 else 60)] for m in range(1, 10)]
    opened, closed = run(watch, minutes)
    assert (opened.state, closed.state) == ("open", "closed")
    assert opened.incident_id == closed.incident_id


def test_when_most_devices_of_a_server_fail_the_server_is_named(watch: GapIncidents) -> None:
    """A server that garbles its JSON is one incident, not one per camera."""
    minutes = [[cell(m, f"10.0.0.{n}", 60, 5) for n in range(1, 6)] for m in (1, 2, 3)]
    (incident,) = run(watch, minutes)
    assert (incident.camera_ip, incident.recognizer_ip) == ("", "s")
    assert incident.detail["scope"] == "server"


def test_one_bad_device_among_good_ones_does_not_blame_the_server(watch: GapIncidents) -> None:
    """The server's other devices are well."""
    minutes = [
        [cell(m, f"10.0.0.{n}", 60, 5 if n == 1 else 60) for n in range(1, 6)] for m in (1, 2, 3)
    ]
    (incident,) = run(watch, minutes)
    assert incident.camera_ip == "10.0.0.1"


def test_smart_devices_have_no_server_to_blame(watch: GapIncidents) -> None:
    """An empty server address is no server (W-6)."""
    minutes = [[cell(m, f"10.0.0.{n}", 60, 5, server="") for n in (1, 2)] for m in (1, 2, 3)]
    assert {i.camera_ip for i in run(watch, minutes)} == {"10.0.0.1", "10.0.0.2"}


def test_a_new_process_goes_on_with_an_open_incident(watch: GapIncidents) -> None:
    """It closes under the id under which it was opened."""
    (opened,) = run(watch, [[cell(m, "10.0.0.1", 60, 10)] for m in (1, 2)])
    second = GapIncidents(RULE, REGISTER)
    second.resume(opened)
    closed = [
        i
        for m in (50, 51)
        for i in second.judge([cell(m, "10.0.0.1", 60, 60)], (m + 1) * MINUTE_MS)
    ]
    assert [(i.incident_id, i.state) for i in closed] == [(opened.incident_id, "closed")]
