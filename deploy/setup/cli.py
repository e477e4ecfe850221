"""The command `setup`.

In: nothing. Out: a table of the pieces, exit status 1 where one is missing. Never: the work itself.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer
from rich.table import Table

from bus.cli.show import screen


class OptionalPart(Enum):
    """What not everybody needs."""

    VIDEO = "video"


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("setup")(setup)


def setup(
    more: Annotated[
        list[OptionalPart] | None,
        typer.Option("--with", help="Also what this needs: video, the detector of `recognise`."),
    ] = None,
) -> None:
    """Fetch now what the first start would fetch: Java (where we may), connector, test servers."""
    from deploy.setup.report import pieces

    table, missing = Table("piece", "state"), 0
    for name, state, there in pieces(OptionalPart.VIDEO in (more or ())):
        table.add_row(name, state)
        missing += not there
    screen().print(table)
    raise typer.Exit(1 if missing else 0)
