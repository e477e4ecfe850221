"""The command `config`.

In: the composed settings in `ctx.obj`. Out: the settings as `databus.toml` writes them, or JSON.
Never: a secret.
"""

from __future__ import annotations

import json

import typer

from bus.cli.show import AsJson


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("config")(config)


def config(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The settings in force by section, after file, variables and flags; `***` is a secret."""
    from deploy.settings.shown import masked_tables

    tables = masked_tables(ctx.obj)
    if as_json:
        typer.echo(json.dumps(tables, ensure_ascii=False))
        return
    for section, values in tables.items():
        typer.echo(f"[{section}]")
        for key, value in values.items():
            name = json.dumps(key) if "." in key else key
            typer.echo(f"{name} = {_toml(value)}")
        typer.echo("")


def _toml(value: object) -> str:
    """A value as `databus.toml` writes it."""
    if isinstance(value, dict):
        rows = (f"{json.dumps(k, ensure_ascii=False)} = {_toml(v)}" for k, v in value.items())
        return f"{{{', '.join(rows)}}}"
    return json.dumps(value, ensure_ascii=False)
