"""The verbs that this room offers; `deploy` mounts them.

`ctx.obj` is the composed settings; these verbs look at `bus` and `site` of it only.
"""

from __future__ import annotations

import typer

from bus.command import groups, records, topics


def mount(app: typer.Typer) -> None:
    """Add `topics`, `groups`, `produce` and `consume`."""
    app.add_typer(topics.app, name="topics")
    app.add_typer(groups.app, name="groups")
    app.command("produce")(records.produce)
    app.command("consume")(records.consume)
