"""The command `account`.

In: words, the composed settings in `ctx.obj`. Out: exit status 0 where everything balances. Never:
the work itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bus.cli.show import AsJson


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("account")(account)


def account(
    ctx: typer.Context,
    as_json: AsJson = False,
    accept: Annotated[
        str, typer.Option(help="Answer for a difference, FLOW:NUMBER as in data.vehicle:-21.")
    ] = "",
    by: Annotated[str, typer.Option(help="Who answers for it.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is so.")] = "",
) -> None:
    """Account for everything in the data directory while the broker runs; status as in `demo`.

    A difference that somebody accepts is no fault of this command any more, and stands below the
    account for ever. Demos do not take it.
    """
    from deploy.reconcile import collect, report
    from deploy.reconcile.accepted import accept as write_down
    from deploy.reconcile.accepted import read_accepted

    folder = ctx.obj.site.data_path
    result = collect.reconcile(ctx.obj, accepted=read_accepted(folder))
    if accept:
        write_down(folder, result, accept, by, reason)
        result = collect.reconcile(ctx.obj, accepted=read_accepted(folder))
    report.print_reconciliation(result, as_json=as_json)
    raise typer.Exit(0 if result.balanced else 1)
