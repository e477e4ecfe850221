"""The command `secure check`.

In: words, the composed settings in `ctx.obj`. Out: a table, or JSON; exit status 1 where a door
stands open. Never: a secret.
"""

from __future__ import annotations

from dataclasses import asdict

import typer

from bus.cli.show import AsJson, print_json, screen, show

COLUMNS = ("check", "where", "what", "remedy")


def check_command(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Every open door of this site, and how it is closed; exit status 1 where there is one.

    Judged are the settings of this machine, what the running brokers say of themselves, files and
    certificates. What could not be asked is said, and is no finding.
    """
    from deploy.secure.check.checks import findings
    from deploy.secure.check.gather import gather

    facts = gather(ctx.obj)
    found = findings(facts)
    if as_json:
        rows = [asdict(one) for one in found]
        print_json({"findings": rows, "not_asked": facts.not_asked})
    else:
        if found:
            show([asdict(one) for one in found], COLUMNS, False)
        for sentence in facts.not_asked:
            screen().print(f"not asked: {sentence}", markup=False, highlight=False)
        screen().print(f"{len(found)} open doors" if found else "no open door was found")
    if found:
        raise typer.Exit(1)
