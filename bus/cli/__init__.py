"""The commands of this package: topics, groups, produce, consume and a cluster's administration.

Each is a client like any other. `deploy` mounts them; `ctx.obj` is the composed settings, of which
they use `bus` and `site` only. Never: the broker's own administration, which is in `broker`.
"""

from __future__ import annotations

import typer


def mount(app: typer.Typer) -> None:
    """Add what reads and writes (`produce`, `consume`) and what runs a cluster (the others)."""
    from bus.cli import (
        brokers,
        configs,
        groups,
        leaders,
        quorum,
        reassign,
        records,
        register,
        topics,
    )

    app.add_typer(topics.app, name="topics")
    app.add_typer(reassign.app, name="reassign")
    app.add_typer(leaders.app, name="leaders")
    app.add_typer(brokers.app, name="brokers")
    app.add_typer(quorum.app, name="quorum")
    app.add_typer(configs.app, name="configs")
    app.add_typer(groups.app, name="groups")
    app.add_typer(register.app, name="register")
    app.command("produce")(records.produce)
    app.command("consume")(records.consume)
