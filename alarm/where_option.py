"""The option `--where` of `watch add`: a rule as a text."""

from __future__ import annotations

import typer

from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Expression
from bus.domain.expressions.marked import marked
from bus.domain.rule_check import RuleError, parsed_where
from bus.domain.rule_demand import UNINDEXED_WARNING, demand_of

WHERE_HELP = (
    "What a record must be, as a text: 'plate_number like \"浙A*123\" and not vehicle_color in "
    "(白色, 黑色) and speed_kmh > 80 or vehicle_brand contains \"jeep\"', or 'in district 玄武区 "
    "and not within (118.79 32.06, 118.81 32.06, 118.8 32.08)'. What --plate and --match "
    "say must hold too. docs/watchlist.md has all forms."
)


def tree_of_text(ctx: typer.Context, text: str, kind: str) -> Expression | None:
    """The tree of a text; None of an empty one. Raises `typer.BadParameter`, with a mark under the
    character that is wrong."""
    if not text.strip():
        return None
    try:
        return parsed_where(kind, text, ctx.obj.site.zone)
    except RuleError as error:
        raise typer.BadParameter(
            f"\n{marked(text, error.column)}\n{error}", param_hint="--where"
        ) from error


def warn_if_unindexed(command: WatchCommand) -> None:
    """Of a rule that every record is held against."""
    if demand_of(command).unindexed:
        typer.echo(f"warning: {UNINDEXED_WARNING}", err=True)
