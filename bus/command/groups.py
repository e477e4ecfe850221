"""`groups`: list, describe, delete."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bus.client.admin import GroupView
from bus.client.consumer import Place
from bus.command.told import admin, told

app = typer.Typer(help="Consumer groups: list, describe, delete.", no_args_is_help=True)

CLIENT_ID = "databus-groups"
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


@app.command("list")
@told
def list_groups(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The ids of all groups."""
    groups = admin(ctx, CLIENT_ID).groups()
    print(json.dumps(groups) if as_json else "\n".join(groups) or "no groups")


@app.command("describe")
@told
def describe_group(ctx: typer.Context, group: str, as_json: AsJson = False) -> None:
    """State, members, committed offsets and how far they are behind."""
    view = admin(ctx, CLIENT_ID).describe_group(group)
    if as_json:
        print(json.dumps(_as_json(view)))
    else:
        _show(view)


@app.command("delete")
@told
def delete_group(ctx: typer.Context, group: str) -> None:
    """Forget a group without members, with its offsets."""
    admin(ctx, CLIENT_ID).delete_group(group)
    print(f"deleted {group}")


def _owners(view: GroupView) -> dict[Place, str]:
    return {place: member.client_id for member in view.members for place in member.places}


def _as_json(view: GroupView) -> dict[str, object]:
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


def _show(view: GroupView) -> None:
    console = Console()
    console.print(f"{view.group}: {view.state}, {len(view.members)} members", highlight=False)
    owners = _owners(view)
    table = Table("topic", "partition", "committed", "behind", "client")
    for place in sorted(view.committed.keys() | owners.keys()):
        committed, lag = view.committed.get(place, ""), view.lag.get(place, "")
        owner = owners.get(place, "")
        table.add_row(place.topic, str(place.partition), str(committed), str(lag), owner)
    console.print(table)
