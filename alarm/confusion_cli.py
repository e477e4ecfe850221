"""`watch confusion`: the site's own table of misreadings, fitted from its judged alarms."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.table import Table

from alarm.asked_answer import fail
from alarm.dispatch.reader import OperationsReader
from alarm.judged_readings import judged_readings
from bus.cli.show import AsJson, print_json, screen
from bus.domain.confusion_fit import NOTHING, PRIOR_LETTERS, SiteConfusion, fitted
from bus.domain.confusion_table import PACKAGED, ConfusionTable, file_of, table_of
from bus.domain.misreading_prices import UNSAID
from bus.files.durable_file import replace_durably
from bus.runtime import wall_clock
from bus.settings import SiteSettings
from ingest.store.port import StoreError

USUAL_FILE = "confusion.json"
MOST_CHANGES = 10
_TO_HELP = (
    "Where the table is written; without it where [site] confusion_table says, or confusion.json in"
    " the data directory."
)


class PriceChange(NamedTuple):
    """Of one character read as another by a reader that says nothing of it. `true` is empty where
    the reader puts the character in, `read` where it leaves it out."""

    true: str
    read: str
    before: float
    after: float


def confusion_commands() -> typer.Typer:
    """The group `confusion` of `watch`."""
    group = typer.Typer(help="What misreadings of plates cost.", no_args_is_help=True)
    group.command("fit")(fit)
    group.callback()(lambda: None)  # a group, though it has one command
    return group


def fit(
    ctx: typer.Context,
    to: Annotated[Path | None, typer.Option(help=_TO_HELP)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit the table of misreadings again, from this site's confirmed and false alarms."""
    site: SiteSettings = ctx.obj.site
    found = _fitted(ctx)
    if not found.letters:
        fail(
            "no alarm says how a plate was read, and nothing is written: it takes alarms of rules"
            " for misread plates (~, resembles) that were confirmed, or were false because the"
            " plate was misread or resembles another"
        )
    path = (to or site.confusion_path or site.data_path / USUAL_FILE).absolute()
    now = datetime.fromtimestamp(wall_clock.now_ms() / 1000, site.tz)
    text = file_of(
        found.counts, fitted_at=now.isoformat(timespec="seconds"), confirmed=found.confirmed,
        false=found.false, letters=found.letters,
    )  # fmt: skip
    table = table_of(text)
    if not dry_run:
        try:
            replace_durably(path, text)
        except OSError as error:
            fail(f"the table cannot be written: {error}")
    changes = price_changes(PACKAGED, table)
    if as_json:
        print_json({
            "confirmed": found.confirmed, "false": found.false, "left_out": found.left_out,
            "letters": found.letters, "by_character": dict(found.by_character),
            "inserted": dict(found.inserted), "omitted": dict(found.omitted),
            "prior_letters": PRIOR_LETTERS, "version": table.version,
            "file": "" if dry_run else str(path),
            "changes": [one._asdict() for one in changes],
        })  # fmt: skip
        return
    _show(found, changes)
    typer.echo("nothing is written" if dry_run else _written(site, path, table))


def price_changes(before: ConfusionTable, after: ConfusionTable) -> list[PriceChange]:
    """The greatest first, at most `MOST_CHANGES`."""
    rows = before.counts.rows.keys() | after.counts.rows.keys()
    pairs = {
        (true, read)
        for true in rows
        for table in (before, after)
        for read in table.prices.taken_for[UNSAID].get(true, ())
    }
    pairs.update((true, NOTHING) for true in rows)
    pairs.update(
        (NOTHING, read) for table in (before, after) for read in table.prices.inserted
    )
    found = [
        PriceChange(true, read, *(round(_price(one, true, read), 2) for one in (before, after)))
        for true, read in pairs
    ]
    changed = [one for one in found if one.before != one.after]
    changed.sort(key=lambda one: (-abs(one.after - one.before), one.true, one.read))
    return changed[:MOST_CHANGES]


def _price(table: ConfusionTable, true: str, read: str) -> float:
    prices = table.prices
    if true == NOTHING:
        return prices.insertion(read)
    return prices.deletion(true) if read == NOTHING else prices.substitution(true, read, UNSAID)


def _fitted(ctx: typer.Context) -> SiteConfusion:
    try:
        reader = OperationsReader(ctx.obj.dispatcher.operations_path(ctx.obj.site))
        try:
            return fitted(judged_readings(reader), PACKAGED.counts)
        finally:
            reader.close()
    except StoreError as error:
        fail(f"no alarms can be read: {error}")


def _show(found: SiteConfusion, changes: list[PriceChange]) -> None:
    typer.echo(
        f"{found.confirmed + found.false:,} alarms count: {found.confirmed:,} confirmed,"
        f" {found.false:,} false; {found.left_out:,} do not"
    )
    most = sorted(found.by_character.items(), key=lambda one: (-one[1], one[0]))
    some = ", ".join(f"{true} {letters:,}" for true, letters in most[:MOST_CHANGES])
    typer.echo(
        f"the table rests on {found.letters:,} letters ({some}), beside the packaged table, which"
        f" weighs as {PRIOR_LETTERS} letters of each character"
    )
    for what, signs in (("put in", found.inserted), ("left out", found.omitted)):
        if signs:
            each = ", ".join(f"{sign} {count:,}" for sign, count in signs.items())
            typer.echo(f"characters that readers {what}: {sum(signs.values()):,} ({each})")
    if changes:
        table = Table("plate", "read as", "price before", "now")
        for one in changes:
            table.add_row(
                one.true or "(none)", one.read or "(left out)", f"{one.before:.2f}",
                f"{one.after:.2f}",
            )  # fmt: skip
        screen().print(table)


def _written(site: SiteSettings, path: Path, table: ConfusionTable) -> str:
    text = f"table {table.version} is written to {path}"
    if site.confusion_path and site.confusion_path.absolute() == path:
        return f"{text}; rules go by it from now on"
    inside = path.relative_to(site.data_path) if path.is_relative_to(site.data_path) else path
    return (
        f"{text}; rules go by it when databus.toml says confusion_table = \"{inside}\" in [site] "
        "where streams, dispatcher and console run, and they are started again"
    )
