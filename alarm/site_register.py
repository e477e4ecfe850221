"""The site's register for a command: what rules that name places are judged with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import typer

from bus.client.register_follower import RegisterFollower
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import AlongRoad, AtPlace, InArea, TravelHeading
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import nodes_of
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces

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


def places_of(ctx: typer.Context, command: WatchCommand, client_id: str) -> RegisteredPlaces:
    """What the rule may name; nothing is asked of the bus for one that names no place."""
    if not _asked(command):
        return NO_PLACES
    with register_of_site(ctx, client_id) as register:
        return RegisteredPlaces(register.read())


def warn_of_places(ctx: typer.Context, command: WatchCommand, client_id: str) -> None:
    """Of names that the register does not have, and of places where nothing stands: the register
    may get them later."""
    places = places_of(ctx, command, client_id)
    for leaf in _asked(command):
        if isinstance(leaf, TravelHeading):
            continue
        found, text = places.find(leaf), to_text(leaf)
        if found.missing:
            names = ", ".join(found.missing)
            typer.echo(f"warning: {text}: the register has no {names}: met by none", err=True)
        elif not found.checkpoints and not found.devices:
            typer.echo(f"warning: {text}: nothing of the register stands there", err=True)


def _asked(command: WatchCommand) -> list[AtPlace | InArea | TravelHeading | AlongRoad]:
    """All for which the register is asked."""
    where = command.where
    leaves = [node for node, _ in nodes_of(where)] if where is not None else []
    asked = AtPlace | InArea | TravelHeading | AlongRoad
    return [leaf for leaf in leaves if isinstance(leaf, asked)]
