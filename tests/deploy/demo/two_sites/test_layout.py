"""A demo of two sites: nothing shares a port or a folder."""

from __future__ import annotations

from pathlib import Path

from deploy.demo.two_sites.layout import two_sites
from deploy.settings.composed import load, with_changes


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
