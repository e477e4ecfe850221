"""A demo of two sites: nothing shares a port, and an account that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo_sites import judge, lost
from deploy.reconcile.balance import (
    AlarmTotals,
    FlowTotals,
    GroundTruth,
    Reconciliation,
    balance,
)
from deploy.settings import load, with_changes
from deploy.two_sites import two_sites


def account(acknowledged: int, stored: int, *, alarms: int = 1, raised: int = 1) -> Reconciliation:
    flow = FlowTotals(
        kind="data.vehicle", on_topic=stored, edge_rejected=0, in_flight=0, counted=acknowledged,
        uncounted=0, truth=GroundTruth(tried=acknowledged, arrived=acknowledged), stored=stored,
        duplicates=0,
    )  # fmt: skip
    names = [f"r:{number}" for number in range(alarms)]
    return balance([flow], AlarmTotals(expected=names, raised=names[:raised], city_rules=["r"]))


def test_every_record_at_b_balances() -> None:
    assert judge(account(100, 100), 0, 100, 40, planned=False) == []
    assert judge(account(100, 100), 0, 100, 40, planned=True) == []


@pytest.mark.parametrize(
    ("missing", "planned", "fault"),
    [
        (0, False, "3 records are lost, the report says 0"),
        (2, False, "3 records are lost, the report says 2"),
        (9, True, "3 records are lost by a planned switch"),
    ],
)
def test_a_record_that_no_report_names_does_not_balance(
    missing: int, planned: bool, fault: str
) -> None:
    assert judge(account(100, 97), missing, 97, 40, planned=planned) == [fault]


def test_what_the_report_of_a_forced_switch_names_is_stated_and_balances() -> None:
    assert lost(account(100, 97)) == 3
    assert judge(account(100, 97), 3, 97, 40, planned=False) == []


def test_a_site_that_stores_nothing_or_raises_no_alarm_does_not_balance() -> None:
    assert judge(account(100, 100), 0, 40, 40, planned=False) == [
        "B has stored nothing since the switch"
    ]
    [fault] = judge(account(100, 100, raised=0), 0, 100, 40, planned=False)
    assert "1 expected and not raised" in fault


def test_no_two_processes_of_the_demo_share_a_port_or_a_folder(tmp_path: Path) -> None:
    settings = with_changes(load(), {"site.data_dir": tmp_path})
    plan = two_sites(settings, 19_000)
    processes = [*plan.a.processes, *plan.b.processes, *plan.camera_processes]
    ports = [one.endpoint.port for one in processes if one.endpoint is not None]
    for site in (plan.a, plan.b):
        ports += [node.controller_port for node in site.brokers.nodes if node.controller_port]
        ports += [node.metrics_port for node in site.brokers.nodes]
        ports += [int(one.rpartition(":")[2]) for one in site.mirror_addresses.split(",")]
        ports += [site.settings.dispatcher.metrics_port, site.settings.streams.metrics_port]
    assert len(set(ports)) == len(ports)
    folders = {plan.a.settings.site.data_path, plan.b.settings.site.data_path,
               plan.cameras.site.data_path}  # fmt: skip
    assert folders == {tmp_path / "a", tmp_path / "b", tmp_path / "cameras"}
    assert [one.name for one in plan.b.processes if one.name == "mirror"] == ["mirror"]
    assert "mirror" not in [one.name for one in plan.a.processes]
    numbers = {node.properties["site.number"] for node in plan.b.brokers.nodes}
    assert numbers == {"2"}
    assert plan.b.settings.mirror.target_bootstrap_servers == plan.b.mirror_addresses
