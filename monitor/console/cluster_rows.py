"""View models of the pages *cluster* and *metadata* (pure): rows and sentences in one language.

In: pictures, events, trees. Out: plain dicts for the browser. Never: NiceGUI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from monitor.api.views import clock
from monitor.cluster.events import ClusterEvent
from monitor.cluster.snapshot import BrokerRow, ClusterSnapshot, PartitionRow
from monitor.cluster.traffic import Rates
from monitor.console.rows import Row
from monitor.i18n import Texts

MAX_UNWELL = 500
"""Rows of partitions that are not well; beyond it the tile says how many there are."""

MAX_CHILDREN = 200
"""Nodes shown under one node of the tree; more are found with the filter."""

_STATES = {"alive": "good", "fenced": "warning", "lost": "critical"}


def broker_row(one: BrokerRow, rates: Rates | None, t: Texts) -> Row:
    """One broker."""
    roles = [t("role.broker")]
    if one.active_controller:
        roles.append(t("role.active"))
    elif one.voter:
        roles.append(t("role.voter"))
    return {
        "id": one.broker_id,
        "state": _STATES[one.state],
        "state_text": t(f"broker.{one.state}"),
        "address": one.address,
        "rack": one.rack,
        "roles": " · ".join(roles),
        "leads": one.leads,
        "preferred": one.preferred,
        "replicas": one.replicas,
        "out_of_sync": one.out_of_sync,
        "metadata_lag": one.metadata_lag,
        "bytes_in": rates.bytes_in if rates else None,
        "bytes_out": rates.bytes_out if rates else None,
    }


def partition_row(one: PartitionRow, t: Texts) -> Row:
    """One partition that is not well."""
    return {
        "id": f"{one.topic}-{one.index}",
        "state": "critical" if one.offline else "warning",
        "state_text": t("partition.offline" if one.offline else "partition.missing"),
        "partition": f"{one.topic}-{one.index}",
        "leader": one.leader if one.leader >= 0 else None,
        "replicas": _listed(one.replicas),
        "isr": _listed(one.isr),
        "missing": _listed(one.missing),
        "elr": _listed(one.elr),
    }


def event_row(event: ClusterEvent, zone: ZoneInfo, t: Texts) -> Row:
    """One event as a sentence."""
    return {
        "id": event.number,
        "time": clock(event.at_ms, zone)[11:19],
        "severity": event.severity,
        "text": t(f"event.{event.kind}", **event.values),
    }


def tiles(now: ClusterSnapshot, t: Texts) -> dict[str, tuple[str, str]]:
    """(value, state) by key; the state is empty where a number is neither good nor bad."""
    total = len(now.brokers)
    controller = (
        t("cluster.no_controller")
        if now.controller_id < 0
        else t("tile.controller_value", broker=now.controller_id, epoch=now.controller_epoch)
        if now.controller_epoch >= 0
        else str(now.controller_id)
    )
    return {
        "alive": (f"{now.alive} / {total}", "good" if now.alive == total else "critical"),
        "controller": (controller, "good" if now.controller_id >= 0 else "critical"),
        "under_replicated": _count(now.under_replicated, "warning"),
        "offline": _count(now.offline, "critical"),
        "not_preferred": (str(now.not_preferred), ""),
        "moving": (str(now.moving), ""),
    }


def _count(count: int, bad: str) -> tuple[str, str]:
    return str(count), bad if count else "good"


def _listed(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, brokers))


def tree_nodes(tree: Mapping[str, Any], find: str, t: Texts, path: str = "") -> list[Row]:
    """Nodes as the tree element takes them; with `find` only branches that contain it."""
    nodes: list[Row] = []
    for name, value in tree.items():
        below = f"{path}/{name}"
        branch = _branch(value)
        if branch is None:
            text = _leaf(value)
            if not find or find in f"{below} {text}".lower():
                nodes.append({"id": below, "label": name, "value": text})
            continue
        whole = not find or find in below.lower()
        children = tree_nodes(branch, "" if whole else find, t, below)
        if children or whole:
            nodes.append({"id": below, "label": name, "value": "", "children": children})
    return nodes if find else _limited(nodes, path, t)


def _limited(nodes: list[Row], path: str, t: Texts) -> list[Row]:
    over = len(nodes) - MAX_CHILDREN
    if over <= 0:
        return nodes
    more = {"id": f"{path}/…", "label": "…", "value": t("metadata.more", count=over)}
    return [*nodes[:MAX_CHILDREN], more]


def _branch(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return {str(at): one for at, one in enumerate(value)}
    return None


def _leaf(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def record_row(row: Mapping[str, Any], zone: ZoneInfo) -> Row:
    """One of the newest records or znodes."""
    moment = clock(row["at_ms"], zone)[:19] if row["at_ms"] > 0 else ""
    return {**row, "moment": moment, "time": moment[11:]}
