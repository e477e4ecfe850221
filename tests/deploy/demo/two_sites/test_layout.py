"""A demo of two sites: nothing shares a port or a folder."""

from __future__ import annotations

from pathlib import Path

from deploy.demo.two_sites.closed import close_pair
from deploy.demo.two_sites.layout import BROKERS, two_sites, with_edge_of
from deploy.settings.composed import edge_url, load, with_changes


def test_no_two_processes_of_the_demo_share_a_port_or_a_folder(tmp_path: Path) -> None:
    settings = with_changes(load(), {"site.data_dir": tmp_path})
    plan = two_sites(settings, 19_000)
    processes = [*plan.a.processes, *plan.b.processes, *plan.camera_processes]
    ports = [one.endpoint.port for one in processes if one.endpoint is not None]
    for site in (plan.a, plan.b):
        ports += [node.controller_port for node in site.brokers.nodes if node.controller_port]
        ports += [node.metrics_port for node in site.brokers.nodes]
        ports += [site.settings.dispatcher.metrics_port, site.settings.streams.metrics_port]
    mirror = plan.b.settings.mirror
    of_mirrors = [*mirror.source_bootstrap_servers.split(","),
                  *mirror.target_bootstrap_servers.split(",")]  # fmt: skip
    ports += [int(one.rpartition(":")[2]) for one in of_mirrors]
    assert len(set(ports)) == len(ports)
    nodes = [*plan.a.brokers.nodes, *plan.b.brokers.nodes]
    for node, address in zip(nodes, of_mirrors, strict=True):
        assert address in node.properties["listeners"], node.name
    folders = {plan.a.settings.site.data_path, plan.b.settings.site.data_path,
               plan.cameras.site.data_path}  # fmt: skip
    assert folders == {tmp_path / "a", tmp_path / "b", tmp_path / "cameras"}
    assert [one.name for one in plan.b.processes if one.name == "mirror"] == ["mirror"]
    url = f":{plan.b.settings.edge.port}"
    assert plan.b.settings.mirror.target_pictures_url.endswith(url)
    assert "mirror" not in [one.name for one in plan.a.processes]
    numbers = {node.properties["site.number"] for node in plan.b.brokers.nodes}
    assert numbers == {"2"}


def test_the_edge_of_the_cameras_is_asked_with_its_own_token(tmp_path: Path) -> None:
    """Closed sites have one each, and the cameras' edge belongs to A; with B's it would be silent."""
    settings = with_changes(load(), {"site.data_dir": tmp_path})
    close_pair(tmp_path, settings.mirror, BROKERS)
    plan = two_sites(settings, 19_000, is_closed=True)
    tokens = {site.settings.security.page_token for site in (plan.a, plan.b)}
    assert len(tokens) == 2
    asked = with_edge_of(plan.b.settings, plan.cameras)
    assert edge_url(asked) == edge_url(plan.cameras)
    assert asked.security.page_token == plan.a.settings.security.page_token
    assert asked.bus == plan.b.settings.bus
    assert asked.site == plan.b.settings.site
