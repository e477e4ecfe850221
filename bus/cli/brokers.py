"""`brokers`: list, describe."""

from __future__ import annotations

from collections import Counter

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, print_json, show, size_text
from bus.client.admin import queries
from bus.client.model import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    QuorumDescription,
    TopicDescription,
)
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode

app = typer.Typer(help="The brokers of the cluster: list, describe.", no_args_is_help=True)


def mount(root: typer.Typer) -> None:
    """Add `brokers` to the command line."""
    root.add_typer(app, name="brokers")


CLIENT_ID = "databus-brokers"


@app.command("list")
@report_errors
def list_brokers(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every broker: where it is, what it is, what it leads and holds."""
    with sync_client(ctx, CLIENT_ID) as asked:
        cluster, topics = queries.cluster(asked), queries.topics(asked)
        quorum = queries.quorum_or_none(asked)
        rows = [_row(one, cluster, topics, quorum, asked) for one in cluster.brokers]
    columns = ["broker", "address", "rack", "state", "roles", "leads", "preferred", "replicas",
               "not in sync", "on disk"]  # fmt: skip
    show(rows, columns, as_json, title=None if as_json else f"cluster {cluster.cluster_id}")


@app.command("describe")
@report_errors
def describe_broker(ctx: typer.Context, broker: int, as_json: AsJson = False) -> None:
    """One broker: its log directories and the replicas in them."""
    with sync_client(ctx, CLIENT_ID) as asked:
        cluster, topics = queries.cluster(asked), queries.topics(asked)
        quorum = queries.quorum_or_none(asked)
        found = [one for one in cluster.brokers if one.broker_id == broker]
        if not found:
            raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {broker}")
        row = _row(found[0], cluster, topics, quorum, asked)
        dirs = [] if found[0].fenced else queries.log_dirs(asked, broker)
    if as_json:
        print_json({**row, "log_dirs": [_dir_row(one) for one in dirs]})
        return
    show([{"": key, "value": value} for key, value in row.items()], ["", "value"], as_json=False)
    columns = ["log directory", "state", "replicas", "logs", "free", "volume"]
    show([_dir_row(one) for one in dirs], columns, as_json=False)
    places = [
        {"replica": f"{topic}-{index}", "size": size_text(one.size_bytes), "lag": one.offset_lag,
         "moving in": one.future, "log directory": log_dir.path}
        for log_dir in dirs
        for (topic, index), one in sorted(log_dir.replicas.items())
    ]  # fmt: skip
    show(places, ["replica", "size", "lag", "moving in", "log directory"], as_json=False)


def roles(
    broker_id: int, cluster: ClusterDescription, quorum: QuorumDescription | None
) -> list[str]:
    """broker, and what it is to the controller."""
    if quorum is None:
        return ["broker", "active controller"] if broker_id == cluster.controller_id else ["broker"]
    if broker_id == quorum.leader_id:
        return ["broker", "active controller"]
    voters = [voter.node_id for voter in quorum.voters]
    return ["broker", "controller"] if broker_id in voters else ["broker"]


def _row(
    one: BrokerDescription,
    cluster: ClusterDescription,
    topics: list[TopicDescription],
    quorum: QuorumDescription | None,
    asked: SyncClient,
) -> dict[str, object]:
    counts = _counts(one.broker_id, topics)
    return {
        "broker": one.broker_id,
        "address": f"{one.host}:{one.port}",
        "rack": one.rack,
        "state": "fenced" if one.fenced else "alive",
        "roles": roles(one.broker_id, cluster, quorum),
        "leads": counts["leads"],
        "preferred": counts["preferred"],
        "replicas": counts["replicas"],
        "not in sync": counts["behind"] or None,
        **_disk(one, asked),
    }


def _disk(one: BrokerDescription, asked: SyncClient) -> dict[str, object]:
    """What its logs occupy; a broker that does not answer is still a row."""
    if one.fenced:
        return {"on disk": None, "size_bytes": None}
    try:
        size = sum(log_dir.size_bytes for log_dir in queries.log_dirs(asked, one.broker_id))
    except BusError as error:
        return {"on disk": error.code.name, "size_bytes": None}
    return {"on disk": size_text(size), "size_bytes": size}


def _counts(broker_id: int, topics: list[TopicDescription]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for topic in topics:
        for partition in topic.partitions:
            held = broker_id in partition.replicas
            counts["leads"] += partition.leader == broker_id
            counts["preferred"] += partition.preferred == broker_id
            counts["replicas"] += held
            counts["behind"] += held and broker_id not in partition.isr
    return counts


def _dir_row(one: LogDirDescription) -> dict[str, object]:
    return {
        "log directory": one.path,
        "state": "works" if one.error == 0 else ErrorCode.of(one.error).name,
        "replicas": len(one.replicas),
        "logs": size_text(one.size_bytes),
        "free": size_text(one.usable_bytes) if one.usable_bytes >= 0 else None,
        "volume": size_text(one.total_bytes) if one.total_bytes >= 0 else None,
        "size_bytes": one.size_bytes,
        "usable_bytes": one.usable_bytes,
        "total_bytes": one.total_bytes,
    }
