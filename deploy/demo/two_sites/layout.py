"""What runs where in a demo of two sites, and on which ports.

In: settings, a first port. Out: settings and plans of both sites and of the cameras' own place.
Never: a free port: the same words give the same addresses every time. B has an edge for the
pictures that the mirror brings.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deploy.cluster.layout import HOST, BrokerNode, ClusterPlan, ControllerKind, plan
from deploy.cluster.processes import cluster_processes, cluster_settings
from deploy.roles.table import MIRROR, children
from deploy.settings.composed import Settings, with_changes
from deploy.supervisor.child import Child

BROKERS = 3
SECOND_PORT = 100  # of B's first broker, behind A's
MIRROR_PORT = 3  # of a broker's listener for mirrors, behind its own
LISTENER = "MIRROR"
APPLICATIONS = ("streams", "dispatcher", "console")
"""What works at both sites. The watch would find one site away for most of the time."""
MOVED_BY = 100
"""Ports of B's roles, beside A's."""


@dataclass(frozen=True, slots=True)
class SitePlan:
    """One site: its settings, its brokers, all its processes."""

    name: str
    settings: Settings
    brokers: ClusterPlan
    processes: list[Child]


@dataclass(frozen=True, slots=True)
class TwoSitesPlan:
    """A and B; the cameras with their edge are at neither, and outlive A."""

    a: SitePlan
    b: SitePlan
    cameras: Settings
    camera_processes: list[Child]


def two_sites(settings: Settings, first_port: int) -> TwoSitesPlan:
    """The plan of the whole demo, below the data directory of the settings."""
    folder = settings.site.data_path
    plans = {
        name: _with_mirror_listener(
            plan(folder / name, brokers=BROKERS, controller=ControllerKind.KRAFT,
                 first_port=first_port + offset),
            number,
        )
        for number, (name, offset) in enumerate((("a", 0), ("b", SECOND_PORT)), 1)
    }  # fmt: skip
    edge_url = f"http://{HOST}:{settings.edge.port}"
    mirror: dict[str, object] = {
        f"mirror.{end}_bootstrap_servers": ",".join(
            f"{HOST}:{node.port + MIRROR_PORT}" for node in plans[name].nodes
        )
        for end, name in (("source", "a"), ("target", "b"))
    }
    mirror["mirror.edge_urls"] = f'["{edge_url}"]'
    b_edge, token = settings.edge.port + MOVED_BY, secrets.token_urlsafe(16)
    mirror |= {
        "mirror.pictures": "hits",
        "mirror.source_pictures_url": edge_url,
        "mirror.target_pictures_url": f"http://{HOST}:{b_edge}",
        "mirror.pictures_token": token,
        "console.accounts_secret": secrets.token_urlsafe(32),
        "edge.mirror_tokens": json.dumps({"mirror": token}),
    }
    sites = []
    for name, ports in (("a", 0), ("b", MOVED_BY)):
        own = with_changes(settings, {
            "site.data_dir": folder / name,
            "console.port": settings.console.port + ports,
            "dispatcher.metrics_port": settings.dispatcher.metrics_port + ports,
            "streams.metrics_port": settings.streams.metrics_port + ports,
            "console.other_site_pictures": edge_url,
            **mirror,
            **({"edge.port": b_edge} if name == "b" else {}),
        })  # fmt: skip
        own = cluster_settings(own, plans[name])
        brokers = cluster_processes(own, plans[name])
        roles = (*APPLICATIONS, "edge", MIRROR) if name == "b" else APPLICATIONS
        stands_for = {"broker": [child.name for child in brokers]}
        processes = children(own, roles, others=brokers, stands_for=stands_for)
        sites.append(SitePlan(name.upper(), own, plans[name], processes))
    cameras = with_changes(sites[0].settings, {
        "site.data_dir": folder / "cameras",
        "edge.second_site_bootstrap_servers": plans["b"].bootstrap,
        "city.second_site_bootstrap_servers": plans["b"].bootstrap,
    })  # fmt: skip
    return TwoSitesPlan(sites[0], sites[1], cameras, children(cameras, ("edge", "city")))


def _with_mirror_listener(made: ClusterPlan, number: int) -> ClusterPlan:
    """The same brokers with a site's number and a listener over which a mirror may write."""
    return replace(made, nodes=tuple(_mirror_node(node, number) for node in made.nodes))


def _mirror_node(node: BrokerNode, number: int) -> BrokerNode:
    address = f"{LISTENER}://{HOST}:{node.port + MIRROR_PORT}"
    names = ("PLAINTEXT", "CONTROLLER", LISTENER)
    more: Mapping[str, str] = {
        "site.number": str(number),
        "mirror.listener.name": LISTENER,
        "listeners": f"{node.properties['listeners']},{address}",
        "advertised.listeners": f"{node.properties['advertised.listeners']},{address}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
    }
    return replace(node, properties={**node.properties, **more})
