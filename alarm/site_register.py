"""The site's register for a command: what rules that name places are judged with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import typer

from bus.client.register_follower import RegisterFollower
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import AtPlace, InArea
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import nodes_of
from bus.domain.registered_places import RegisteredPlaces

READ_S = 10.0


@contextmanager
def register_of_site(ctx: typer.Context, client_id: str) -> Iterator[RegisterFollower]:
    """Read to its end, or as far as the bus says it in time: then with a warning."""
    path = ctx.obj.site.data_path / "register.json"
    follower = RegisterFollower(ctx.obj.bus, path, f"{client_id}-register").start()
    with closing(follower):
        if not follower.wait_until_read(READ_S):
            typer.echo("warning: the register could not be read; no place is known", err=True)
        yield follower


def warn_of_places(ctx: typer.Context, command: WatchCommand, client_id: str) -> None:
    """Of names that the register does not have, and of places where nothing stands: the register
    may get them later."""
    where = command.where
    leaves = [node for node, _ in nodes_of(where)] if where is not None else []
    asked = [leaf for leaf in leaves if isinstance(leaf, AtPlace | InArea)]
    if not asked:
        return
    with register_of_site(ctx, client_id) as register:
        places = RegisteredPlaces(register.read())
    for leaf in asked:
        found, text = places.find(leaf), to_text(leaf)
        if found.missing:
            names = ", ".join(found.missing)
            typer.echo(f"warning: {text}: the register has no {names}: met by none", err=True)
        elif not found.checkpoints and not found.devices:
            typer.echo(f"warning: {text}: nothing of the register stands there", err=True)
