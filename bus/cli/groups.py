"""`groups`: list, describe, reset, delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import tzinfo
from typing import Annotated

import typer
from rich.table import Table

from bus.cli.errors import admin, report_errors
from bus.cli.records import timestamp_ms
from bus.cli.show import screen, show
from bus.client.kafka.admin import Admin
from bus.client.model import GroupDescription, TopicPartition
from bus.errors import BusError, ErrorCode

app = typer.Typer(
    help="Consumer groups: list, describe, reset, delete.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `groups` to the command line."""
    root.add_typer(app, name="groups")


CLIENT_ID = "databus-groups"
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


@app.command("list")
@report_errors
def list_groups(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The ids of all groups."""
    groups = admin(ctx, CLIENT_ID).groups()
    print(json.dumps(groups) if as_json else "\n".join(groups) or "no groups")


@app.command("describe")
@report_errors
def describe_group(ctx: typer.Context, group: str, as_json: AsJson = False) -> None:
    """State, members, committed offsets and how far they are behind."""
    view = admin(ctx, CLIENT_ID).describe_group(group)
    if as_json:
        print(json.dumps(_as_json(view)))
    else:
        _show(view)


@app.command("reset")
@report_errors
def reset_group(
    ctx: typer.Context,
    group: str,
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, an offset (120), a step (+100, -100), or a time "
            "(2026-03-01T08:00)."
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Only this topic, or one partition of it (data.vehicle:3)."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else only show.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a group without members go on from another place. Shows first, does with --execute."""
    client = admin(ctx, CLIENT_ID)
    committed = client.committed(group)
    places = _chosen(client, committed, topic or [])
    if not places:
        raise typer.BadParameter(f"{group} has read nothing of that; name a --topic")
    wanted = _targets(client, places, committed, to, ctx.obj.site.tz)
    rows = [
        {"topic": p.topic, "partition": p.partition, "now": committed.get(p), "then": wanted[p]}
        for p in sorted(wanted)
    ]
    if execute:
        client.set_committed(group, wanted)
    show(rows, ["topic", "partition", "now", "then"], as_json)
    if not execute and not as_json:
        print("nothing is changed yet; --execute does it")


def _chosen(
    client: Admin, committed: Mapping[TopicPartition, int], words: list[str]
) -> list[TopicPartition]:
    """What the group has read, or the topics and partitions named."""
    if not words:
        return sorted(committed)
    found: list[TopicPartition] = []
    for word in words:
        name, colon, index = word.partition(":")
        every = [TopicPartition(name, p.index) for p in client.describe_topic(name).partitions]
        found += [p for p in every if not colon or str(p.partition) == index]
    return found


def _targets(
    client: Admin,
    places: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    to: str,
    zone: tzinfo,
) -> dict[TopicPartition, int]:
    """Where each partition shall go on, never outside what there is."""
    starts, ends = client.start_offsets(places), client.end_offsets(places)
    for place in places:
        if place not in starts or place not in ends:
            raise BusError(ErrorCode.LEADER_NOT_AVAILABLE, f"{place.topic}-{place.partition}")
    if to == "earliest":
        return starts
    if to == "latest":
        return ends
    if to[:1] in "+-" and to[1:].isdecimal():
        wanted = {p: committed.get(p, starts[p]) + int(to) for p in places}
    elif to.isdecimal():
        wanted = dict.fromkeys(places, int(to))
    else:
        wanted = client.offsets_at(places, timestamp_ms(to, zone))
    return {p: min(max(offset, starts[p]), ends[p]) for p, offset in wanted.items()}


@app.command("delete")
@report_errors
def delete_group(ctx: typer.Context, group: str) -> None:
    """Forget a group without members, with its offsets."""
    admin(ctx, CLIENT_ID).delete_group(group)
    print(f"deleted {group}")


def _owners(view: GroupDescription) -> dict[TopicPartition, str]:
    return {place: member.client_id for member in view.members for place in member.assignment}


def _as_json(view: GroupDescription) -> dict[str, object]:
    owners = _owners(view)
    partitions = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed": view.committed.get(place),
            "lag": view.lag.get(place),
            "client": owners.get(place),
        }
        for place in sorted(view.committed.keys() | owners.keys())
    ]
    members = [member.client_id for member in view.members]
    return {"group": view.group, "state": view.state, "members": members, "partitions": partitions}


def _show(view: GroupDescription) -> None:
    console = screen()
    console.print(f"{view.group}: {view.state}, {len(view.members)} members", highlight=False)
    owners = _owners(view)
    table = Table("topic", "partition", "committed", "behind", "client")
    for place in sorted(view.committed.keys() | owners.keys()):
        committed, lag = view.committed.get(place, ""), view.lag.get(place, "")
        owner = owners.get(place, "")
        table.add_row(place.topic, str(place.partition), str(committed), str(lag), owner)
    console.print(table)
