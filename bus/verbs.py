"""The verbs that this room offers; `deploy` mounts them.

`ctx.obj` is the composed settings; these verbs look at `bus` and `site` of it only.
"""

from __future__ import annotations

import typer

from bus.command import brokers, configs, groups, leaders, quorum, reassign, records, topics


def mount(app: typer.Typer) -> None:
    """Add what reads and writes (`produce`, `consume`) and what runs a cluster (the others)."""
    app.add_typer(topics.app, name="topics")
    app.add_typer(reassign.app, name="reassign")
    app.add_typer(leaders.app, name="leaders")
    app.add_typer(brokers.app, name="brokers")
    app.add_typer(quorum.app, name="quorum")
    app.add_typer(configs.app, name="configs")
    app.add_typer(groups.app, name="groups")
    app.command("produce")(records.produce)
    app.command("consume")(records.consume)
