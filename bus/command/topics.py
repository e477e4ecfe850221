"""`topics`: list, create, describe, delete."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bus.client.admin import TopicView
from bus.command.told import admin, told
from bus.contracts.topics import TOPICS

app = typer.Typer(help="Topics of the bus: list, create, describe, delete.", no_args_is_help=True)

CLIENT_ID = "databus-topics"
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


@app.command("list")
@told
def list_topics(
    ctx: typer.Context,
    internal: Annotated[bool, typer.Option(help="Show internal topics (__…) too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Names and partitions of all topics."""
    topics = admin(ctx, CLIENT_ID).topics()
    shown = [topic for topic in topics if internal or not topic.name.startswith("__")]
    if as_json:
        print(json.dumps([{"name": t.name, "partitions": len(t.partitions)} for t in shown]))
        return
    table = Table("topic", "partitions", "flow", "key")
    for topic in shown:
        contract = TOPICS.get(topic.name)
        flow, key = (contract.flow.value, contract.key) if contract else ("", "")
        table.add_row(topic.name, str(len(topic.partitions)), flow, key)
    Console().print(table)


@app.command("create")
@told
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
) -> None:
    """Create a topic, or all topics of the contract that are missing.

    A name of the contract (see `bus/contracts/topics.py`) gets the contract's partitions and
    configuration unless told otherwise.
    """
    client = admin(ctx, CLIENT_ID)
    if name is None:
        created = client.ensure_topics(TOPICS.values())
        print("\n".join(created) or "all topics of the contract are there")
        return
    contract = TOPICS.get(name)
    configs = {**(contract.configs if contract else {}), **_pairs(config or [])}
    if contract and partitions < 0:
        partitions = contract.partitions
    client.create_topic(name, partitions, configs, replication_factor)
    print(f"created {name}")


@app.command("describe")
@told
def describe_topic(ctx: typer.Context, name: str, as_json: AsJson = False) -> None:
    """Partitions, leaders, offsets, and the configuration that was set."""
    topic = admin(ctx, CLIENT_ID).describe_topic(name)
    if as_json:
        print(json.dumps(dataclasses.asdict(topic)))
        return
    _show(topic)


@app.command("delete")
@told
def delete_topic(
    ctx: typer.Context,
    name: str,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a topic and all its records, for good."""
    if not yes:
        typer.confirm(f"Delete {name} and all its records?", abort=True)
    admin(ctx, CLIENT_ID).delete_topic(name)
    print(f"deleted {name}")


def _show(topic: TopicView) -> None:
    contract = TOPICS.get(topic.name)
    console = Console()
    table = Table(
        "partition", "leader", "replicas", "in sync", "from", "to", "records", title=topic.name
    )
    for p in topic.partitions:
        replicas, isr = (", ".join(map(str, nodes)) for nodes in (p.replicas, p.isr))
        size = p.end_offset - p.log_start_offset
        offsets = (str(p.log_start_offset), str(p.end_offset), str(size))
        table.add_row(str(p.partition), str(p.leader), replicas, isr, *offsets)
    console.print(table)
    for key, value in topic.configs.items():
        console.print(f"{key} = {value}", highlight=False)
    if contract:
        console.print(f"{contract.flow.value} flow, key: {contract.key}", highlight=False)


def _pairs(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not key=value", param_hint="--config")
    return {key.strip(): value.strip() for key, _, value in pairs}
