"""The commands `run` (one role in the foreground) and `package` (the zip that Spark work needs).

In: words, the composed settings in `ctx.obj`. Out: the exit status; a path. Never: the work itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("run")(run)
    app.command("package")(package)


def run(
    ctx: typer.Context,
    role: Annotated[
        str,
        typer.Argument(
            help="broker, edge, streams, dispatcher, console, watch, recorder or city."
        ),
    ],
) -> None:
    """One role in the foreground: what the supervisor, systemd and compose start."""
    from deploy.roles import run as work

    raise typer.Exit(work.run(role, ctx.obj))


def package(
    target: Annotated[
        Path | None, typer.Argument(help="The zip; default: dist/packages.zip.")
    ] = None,
) -> None:
    """Make the one zip of our packages for Spark's --py-files."""
    from deploy.roles import package as work

    typer.echo(str(work.build_zip(target)))
