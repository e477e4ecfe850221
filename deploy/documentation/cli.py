"""The command `screenshots`.

In: words, the composed settings in `ctx.obj`. Out: the paths of the pictures. Never: the work
itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("screenshots")(screenshots)


def screenshots(
    ctx: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="Where to; default: docs/pictures.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this page; may be given often.")
    ] = None,
) -> None:
    """Take the pictures of the console that README shows, from a demo that runs.

    In English and in Chinese. Look at them before they are committed; the demo has to have run for
    some minutes, so that charts and lists are full.
    """
    from deploy.documentation import screenshots as work
    from deploy.roles.table import console_endpoint
    from deploy.setup.test_packages import ensure_test_packages

    ensure_test_packages()
    endpoint = console_endpoint(ctx.obj)
    url = f"http://{endpoint.probe_host}:{endpoint.port}"
    for path in work.save_pictures(url, ctx.obj.site.data_path, folder or work.FOLDER, only or ()):
        typer.echo(f"{path}  {path.stat().st_size:,} bytes")
