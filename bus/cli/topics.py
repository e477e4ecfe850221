"""`topics`: list, create, describe, grow, delete."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bus.cli.errors import admin, report_errors, sync_client
from bus.cli.show import AsJson, Yes, print_json, screen, show
from bus.client.admin import commands, queries
from bus.client.admin.config_resources import TOPIC
from bus.client.model import PartitionDescription, TopicDescription
from bus.contracts.topics import TOPICS, Topic

app = typer.Typer(
    help="Topics of the bus: list, create, describe, grow, delete.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `topics` to the command line."""
    root.add_typer(app, name="topics")


CLIENT_ID = "databus-topics"
MIN_ISR = "min.insync.replicas"
Assignment = Annotated[
    str | None,
    typer.Option(help="Replicas by hand, preferred leader first: 1:2,2:3 is two partitions."),
]


@app.command("list")
@report_errors
def list_topics(
    ctx: typer.Context,
    internal: Annotated[bool, typer.Option(help="Show internal topics (__…) too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Names, partitions, replicas and health of all topics."""
    with sync_client(ctx, CLIENT_ID) as cluster:
        found = queries.topics(cluster)
    listed = [topic for topic in found if internal or not topic.name.startswith("__")]
    columns = ["name", "partitions", "replicas", "under replicated", "no leader", "flow", "key"]
    show([_topic_row(topic) for topic in listed], columns, as_json)


def _topic_row(topic: TopicDescription) -> dict[str, object]:
    contract = TOPICS.get(topic.name)
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replicas": topic.replication_factor,
        "under replicated": sum(p.under_replicated for p in topic.partitions) or None,
        "no leader": sum(p.unavailable for p in topic.partitions) or None,
        "flow": contract.flow.value if contract else "",
        "key": contract.key if contract else "",
    }


@app.command("create")
@report_errors
def create_topic(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Without a name: all topics of the contract.")
    ] = None,
    partitions: Annotated[int, typer.Option(help="-1: as the contract or the broker says.")] = -1,
    replication_factor: Annotated[int, typer.Option(help="-1: as the broker says.")] = -1,
    config: Annotated[
        list[str] | None, typer.Option(help="retention.ms=86400000; may be given often.")
    ] = None,
    assignment: Assignment = None,
) -> None:
    """Create a topic, or all topics of the contract that are missing.

    A name of the contract (see `bus/contracts/topics.py`) gets the contract's partitions and
    configuration unless told otherwise. Replicas are spread over brokers and racks.
    """
    configs = pairs(config or [])
    if name is None:
        created = admin(ctx, CLIENT_ID).ensure_topics(TOPICS.values())
        print("\n".join(created) or "all topics of the contract are there")
        return
    contract = TOPICS.get(name)
    if contract and partitions < 0:
        partitions = contract.partitions
    with sync_client(ctx, CLIENT_ID) as cluster:
        commands.create_topic(
            cluster,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=dict(enumerate(_replicas(assignment))) if assignment else None,
            configs={**(contract.configs if contract else {}), **configs},
        )
    print(f"created {name}")


@app.command("describe")
@report_errors
def describe_topic(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Without a name: all topics.")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions that miss replicas.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only those that refuse acks=all now.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="Only those that one more loss would stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Partitions, leaders, replicas, offsets, and the configuration that was set."""
    wanted = {
        "under-replicated": under_replicated,
        "no leader": unavailable,
        "under min ISR": under_min_isr,
        "at min ISR": at_min_isr,
    }
    filters = {word for word, on in wanted.items() if on}
    if name is not None and not filters:
        _describe_one(ctx, name, as_json)
        return
    with sync_client(ctx, CLIENT_ID) as cluster:
        found = queries.topics(cluster, None if name is None else [name])
        least = _min_isrs(cluster, found) if under_min_isr or at_min_isr else {}
    rows = [
        {"topic": topic.name, **_partition_row(partition, words)}
        for topic in found
        for partition in topic.partitions
        for words in [states(partition, least.get(topic.name, 0))]
        if not filters or filters & words
    ]
    columns = ["topic", "partition", "leader", "replicas", "isr", "elr", "offline", "state"]
    show(rows, columns, as_json)


def states(partition: PartitionDescription, min_isr: int = 0) -> set[str]:
    """What is wrong with a partition, in the words of the table."""
    found = set()
    if partition.unavailable:
        found.add("no leader")
    if partition.under_replicated:
        found.add("under-replicated")
    if len(partition.isr) < min_isr:
        found.add("under min ISR")
    if len(partition.isr) == min_isr:
        found.add("at min ISR")
    return found


def _min_isrs(cluster: Any, found: list[TopicDescription]) -> dict[str, int]:
    least = {}
    for topic in found:
        values = {e.name: e.value for e in queries.configs(cluster, TOPIC, topic.name)}
        least[topic.name] = int(values.get(MIN_ISR) or 1)
    return least


def _partition_row(partition: PartitionDescription, words: set[str]) -> dict[str, object]:
    return {
        "partition": partition.index,
        "leader": partition.leader if partition.leader >= 0 else "none",
        "replicas": partition.replicas,
        "isr": partition.isr,
        "elr": partition.elr,
        "offline": partition.offline,
        "state": sorted(words),
    }


def _describe_one(ctx: typer.Context, name: str, as_json: bool) -> None:
    client = admin(ctx, CLIENT_ID)
    with sync_client(ctx, CLIENT_ID) as cluster:
        topic = queries.topics(cluster, [name])[0]
    known = client.describe_topic(name)
    offsets = {view.index: view for view in known.partitions}
    rows = [_offset_row(p, offsets.get(p.index)) for p in topic.partitions]
    contract = TOPICS.get(name)
    if as_json:
        whole = {"name": name, "topic_id": topic.topic_id.hex(), "partitions": rows}
        contract_row = {"contract": _contract_row(contract)} if contract else {}
        print_json({**whole, "configs": dict(known.configs), **contract_row})
        return
    columns = ["partition", "leader", "replicas", "isr", "elr", "offline", "state",
               "log_start_offset", "end_offset", "records"]  # fmt: skip
    show(rows, columns, as_json=False, title=name)
    as_kafka_writes = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
    screen().print(f"topic id {as_kafka_writes}", highlight=False)  # as in partition.metadata
    for key, value in known.configs.items():
        screen().print(f"{key} = {value}", highlight=False)
    if contract:
        _print_contract(contract)


def _contract_row(contract: Topic) -> dict[str, object]:
    """What the contract decided, and why (I-1)."""
    return {
        "flow": contract.flow.value,
        "key": contract.key,
        "partitions": contract.partitions,
        "partitions_why": contract.partitions_why,
        "retention_ms": contract.retention_ms,
        "retention_why": contract.retention_why,
        "live_keys": contract.live_keys and asdict(contract.live_keys),
    }


def _print_contract(contract: Topic) -> None:
    kept = "for ever" if contract.retention_ms < 0 else f"{contract.retention_ms / 3_600_000:g} h"
    lines = [
        f"{contract.flow.value} flow, key: {contract.key}",
        f"by contract {contract.partitions} partitions: {contract.partitions_why}",
        f"by contract kept {kept}: {contract.retention_why}",
    ]
    if (keys := contract.live_keys) is not None:
        lines += [
            f"when cleaned, {keys.what}: {keys.bound}",
            f"a key is removed by {keys.removed_by}",
        ]
    for line in lines:
        screen().print(line, highlight=False, markup=False, soft_wrap=True)


def _offset_row(
    partition: PartitionDescription, view: PartitionDescription | None
) -> dict[str, object]:
    start, end = (view.log_start_offset, view.end_offset) if view else (-1, -1)
    return {
        **_partition_row(partition, states(partition)),
        "leader_epoch": partition.leader_epoch,
        "log_start_offset": start,
        "end_offset": end,
        "records": max(0, end - start),
    }


@app.command("grow")
@report_errors
def grow_topic(
    ctx: typer.Context,
    name: str,
    partitions: Annotated[int, typer.Argument(help="The new total.")],
    assignment: Assignment = None,
) -> None:
    """Give a topic more partitions. Keys move to other partitions: order per key starts over."""
    with sync_client(ctx, CLIENT_ID) as cluster:
        commands.add_partitions(
            cluster, name, partitions, _replicas(assignment) if assignment else None
        )
    print(f"{name} has {partitions} partitions")


@app.command("delete")
@report_errors
def delete_topic(ctx: typer.Context, name: str, yes: Yes = False) -> None:
    """Delete a topic and all its records, for good."""
    if not yes:
        typer.confirm(f"Delete {name} and all its records?", abort=True)
    with sync_client(ctx, CLIENT_ID) as cluster:
        commands.delete_topic(cluster, name)
    print(f"deleted {name}")


def pairs(words: list[str]) -> dict[str, str]:
    """key=value words."""
    found = [word.partition("=") for word in words]
    wrong = [key for key, equals, _ in found if not equals]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not key=value", param_hint="--config")
    return {key.strip(): value.strip() for key, _, value in found}


def _replicas(text: str) -> list[list[int]]:
    """T-CR-03: comma between partitions, colon between the replicas of one."""
    try:
        return [[int(one) for one in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not like 1:2,2:3", param_hint="--assignment"
        ) from None
