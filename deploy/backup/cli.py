"""The commands `backup` and `restore`.

In: words, the composed settings in `ctx.obj`. Out: a line for each file. Never: the work itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HbaseShellCommand = Annotated[
    str, typer.Option(help="What starts HBase's shell, where the records are in HBase.")
]


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    without_records: Annotated[bool, typer.Option(help="Leave the records out.")] = False,
    hbase_shell: HbaseShellCommand = "hbase shell -n",
) -> None:
    """Save records, alarms, incidents, accounts, rules and register while everything runs."""
    from deploy.backup import backup as work

    manifest = work.backup(
        ctx.obj, folder, with_records=not without_records, hbase_shell=hbase_shell
    )
    for file in manifest.files:
        typer.echo(f"{file.name}  {file.size_bytes:,} bytes  sha256 {file.sha256}")
    if manifest.hbase is not None:
        for table, snapshot in manifest.hbase.tables.items():
            typer.echo(f"{table}  snapshot {snapshot}")
        typer.echo(f"ingest waited {manifest.hbase.paused_ms / 1000:.1f} s")
    for warning in manifest.warnings:
        typer.echo(warning, err=True)


def restore(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="What `backup` has written.")],
    replace: Annotated[bool, typer.Option(help="Replace what the data directory holds.")] = False,
    hbase_shell: HbaseShellCommand = "hbase shell -n",
) -> None:
    """Put a backup into the data directory of a product that does not run."""
    from deploy.backup import backup as work

    manifest = work.restore(ctx.obj, folder, replace=replace, hbase_shell=hbase_shell)
    for file in manifest.files:
        typer.echo(f"{file.name}  restored")
    for warning in manifest.warnings:
        typer.echo(f"of that backup: {warning}", err=True)
    typer.echo("the next start puts rules and register on topics that lack them")
    typer.echo("the next start goes on from these positions; its log tells what retention cut")
