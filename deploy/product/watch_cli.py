"""`watch`: the commands of the watch list, and the preview, which needs the store of records.

In: words, the composed settings in `ctx.obj`. Out: a table, or JSON. Never: a record: a preview
counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.table import Table

from alarm.cli import (
    KindOption,
    MatchOption,
    PlateOption,
    WhereOption,
    check_options,
    rule_of_options,
    watch_commands,
)
from alarm.command_request import CLIENT_ID
from alarm.preview import preview_piece
from alarm.shell_asker import CaseOption, ReasonOption
from alarm.site_register import places_of
from bus.cli.show import AsJson, print_json, screen
from bus.confusion_file import source_of
from bus.contracts.commands import USUAL_KIND
from bus.domain.rule_preview import PreviewPiece, PreviewRequest, PreviewTotals, days_back
from bus.domain.rule_targets import names_somebody
from bus.runtime import wall_clock
from deploy.open_stores import open_records
from deploy.product import approval_cli
from deploy.product.shell_question import note_question
from ingest.store.port import StoreError
from monitor.questions.question import rule_sentence

MOST_DAYS = 366
MOST_PLACES = 10
BAR = 40
"""Characters of the longest bar."""
_MOST_HELP = "Stop after so many records were looked at."


def mount(app: typer.Typer) -> None:
    """Add the commands of this module."""
    watch = watch_commands()
    watch.command("preview")(preview)
    approval_cli.mount(watch)
    app.add_typer(watch, name="watch")


class PreviewCounts(PreviewTotals):
    """And whether it was stopped before all days were looked through."""

    is_partial = False


def preview(
    ctx: typer.Context,
    plate: PlateOption = None,
    match: MatchOption = None,
    kind: KindOption = USUAL_KIND,
    where: WhereOption = "",
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="Back from today.")] = 7,
    most: Annotated[int, typer.Option(min=1, help=_MOST_HELP)] = 5_000_000,
    reason: ReasonOption = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Count what a rule would have hit, newest day first, before it is put. Ctrl-C stops it."""
    rule = rule_of_options(ctx, plate, match, kind, where)
    check_options(rule)
    note_question(
        ctx, "preview", {"rule": rule_sentence(rule)}, reason, case,
        names_somebody=names_somebody(rule),
    )  # fmt: skip
    counts = PreviewCounts()
    try:
        with closing(open_records(ctx.obj)) as reader:
            places = places_of(ctx, rule, CLIENT_ID)
            confusion = source_of(ctx.obj.site).read()
            look = partial(preview_piece, reader, rule, places=places, confusion=confusion)
            _count(look, ctx.obj.site.tz, days, most, counts)
    except KeyboardInterrupt:
        counts.is_partial = True
    except StoreError as error:
        typer.echo(f"databus: no records can be read: {error}", err=True)
        raise typer.Exit(1) from error
    finally:
        _progress(None)
    if as_json:
        print_json(
            {
                "days": {f"{day}": hits for day, hits in counts.days.items()},
                "places": dict(counts.places.most_common()),
                "read": counts.read,
                "is_partial": counts.is_partial,
            }
        )
    else:
        _show(counts)


def _count(
    look: Callable[[PreviewRequest], PreviewPiece], zone: ZoneInfo, days: int, most: int,
    counts: PreviewCounts,
) -> None:  # fmt: skip
    for back, (day, asked) in enumerate(days_back(wall_clock.now_ms(), zone, days), 1):
        piece = look(asked)
        counts.add(day, piece)
        while piece.cursor and counts.read < most:
            _progress(counts)
            piece = look(msgspec.structs.replace(asked, cursor=piece.cursor))
            counts.add(day, piece)
        _progress(counts)
        if counts.read >= most and (piece.cursor or back < days):
            counts.is_partial = True
            return


def _progress(counts: PreviewCounts | None) -> None:
    """A line that is written over and gone at the end; nothing where nobody looks."""
    if sys.stderr.isatty():
        hits = counts.places.total() if counts else 0
        text = f"{counts.read:,} records looked at, {hits:,} hits" if counts else ""
        sys.stderr.write(f"\r{text:<60}\r" if not counts else f"\r{text:<60}")
        sys.stderr.flush()


def _show(counts: PreviewCounts) -> None:
    table = Table("day", "hits", "")
    most = max(counts.days.values(), default=0)
    for day, hits in counts.days.items():
        table.add_row(f"{day}", f"{hits:,}", "█" * (BAR * hits // most if most else 0))
    screen().print(table)
    said = f"{counts.places.total():,} hits at {len(counts.places):,} places; "
    typer.echo(f"{said}{counts.read:,} records looked at")
    if counts.is_partial:
        typer.echo("stopped before all days were looked through: the last day above is not whole")
    for place, hits in counts.places.most_common(MOST_PLACES):
        typer.echo(f"  {place}: {hits:,}")
