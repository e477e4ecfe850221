"""What runs where in a demo of two sites, and on which ports.

In: settings, a first port. Out: settings and plans of both sites and of the cameras' own place.
Never: a free port: the same words give the same addresses every time. B has an edge for the
pictures that the mirror brings.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

import msgspec

from bus.contracts.access import OPERATOR
from deploy.cluster.layout import HOST, BrokerNode, ClusterPlan, ControllerKind, plan
from deploy.cluster.processes import cluster_processes, cluster_settings
from deploy.demo.two_sites.closed import site_folder
from deploy.roles.table import MIRROR, children
from deploy.secure.account_settings import as_account
from deploy.settings.composed import Settings, with_changes
from deploy.supervisor.child import Child

BROKERS = 3
SECOND_PORT = 100  # of B's first broker, behind A's
MIRROR_PORT = 4  # of a broker's listener for mirrors, behind its own
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


def two_sites(settings: Settings, first_port: int, *, is_closed: bool = False) -> TwoSitesPlan:
    """The plan of the whole demo, below the data directory of the settings. `is_closed`: each site
    has its folder of a secured site there, as `close_pair` makes them; the cameras and their edge
    belong to A."""
    folder = settings.site.data_path
    plans = {
        name: _with_mirror_listener(
            plan(folder / name, brokers=BROKERS, controller=ControllerKind.KRAFT,
                 first_port=first_port + offset),
            number, is_closed=is_closed,
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
    b_edge = settings.edge.port + MOVED_BY
    mirror |= {
        "mirror.pictures": "hits",
        "mirror.source_pictures_url": edge_url,
        "mirror.target_pictures_url": f"http://{HOST}:{b_edge}",
        **({} if is_closed else _shared_secrets()),
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
            **({"security.folder": site_folder(folder, name)} if is_closed else {}),
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
    processes = children(cameras, ("edge", "city"))
    a, b = (replace(site, settings=as_account(site.settings, OPERATOR)) for site in sites)
    return TwoSitesPlan(a, b, as_account(cameras, OPERATOR), processes)


def with_edge_of(site: Settings, cameras: Settings) -> Settings:
    """A site's settings whose edge is the cameras', with the token that its pages ask for."""
    return msgspec.structs.replace(
        site,
        edge=msgspec.structs.replace(site.edge, port=cameras.edge.port),
        security=msgspec.structs.replace(
            site.security, page_token=cameras.security.page_token
        ),
    )


def _shared_secrets() -> dict[str, object]:
    """Of open sites; what closed ones share lies in their folders."""
    token = secrets.token_urlsafe(16)
    return {
        "mirror.pictures_token": token,
        "console.accounts_secret": secrets.token_urlsafe(32),
        "edge.mirror_tokens": json.dumps({"mirror": token}),
    }


def _with_mirror_listener(made: ClusterPlan, number: int, *, is_closed: bool) -> ClusterPlan:
    """The same brokers with a site's number and a listener over which a mirror may write."""
    nodes = tuple(_mirror_node(node, number, is_closed=is_closed) for node in made.nodes)
    return replace(made, nodes=nodes)


def _mirror_node(node: BrokerNode, number: int, *, is_closed: bool) -> BrokerNode:
    """Which protocols a closed site's listeners speak, its folder decides."""
    address = f"{LISTENER}://{HOST}:{node.port + MIRROR_PORT}"
    names = ("PLAINTEXT", "CONTROLLER", LISTENER)
    more = {
        "site.number": str(number),
        "mirror.listener.name": LISTENER,
        "listeners": f"{node.properties['listeners']},{address}",
        "advertised.listeners": f"{node.properties['advertised.listeners']},{address}",
    }
    if not is_closed:
        more |= {"listener.security.protocol.map": ",".join(f"{n}:PLAINTEXT" for n in names)}
    return replace(node, properties={**node.properties, **more})
