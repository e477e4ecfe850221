"""The commands `secure …`.

In: words, the composed settings in `ctx.obj`. Out: what was made, in words; exit status. Never: the
work itself.
"""

from __future__ import annotations

import typer

app = typer.Typer(
    help="A closed site: its certificates, its accounts, and who may do what.",
    no_args_is_help=True,
)


def mount(root: typer.Typer) -> None:
    """Add the commands of this package."""
    root.add_typer(app, name="secure")


@app.callback()
def secure() -> None:
    """A closed site: its certificates, its accounts, and who may do what."""
