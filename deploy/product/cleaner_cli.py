"""`cleaner`: how far the brokers have cleaned their compacted partitions.

In: words, the composed settings in `ctx.obj`. Out: a table, or JSON. Never: a change.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, print_json, screen, show, size_text

CLIENT_ID = "databus-cleaner"
_COLUMNS = (
    "topic", "partition", "broker", "size", "dirty", "oldest dirty record", "last pass", "state",
)  # fmt: skip


def mount(app: typer.Typer) -> None:
    """Add the command of this module."""
    cleaner = typer.Typer(
        help="The brokers' log cleaners: what is dirty, what cannot be cleaned.",
        no_args_is_help=True,
    )
    cleaner.callback()(_group)
    cleaner.command("status")(status)
    app.add_typer(cleaner, name="cleaner")


def _group() -> None:
    """The brokers' log cleaners: what is dirty, what cannot be cleaned."""


@report_errors
def status(
    ctx: typer.Context,
    brokers: Annotated[
        str, typer.Option(help="Where their metrics are: 1=http://HOST:9094/metrics, 2=….")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Every compacted partition that has records: what cannot be cleaned, then by its dirty share.

    Below the table, of each one that cannot be cleaned: since when, why, and what to do. Exit
    status 1 where there is such a one, or where a broker does not answer.
    """
    from bus.client.admin import queries
    from deploy.roles.run import console_settings
    from monitor.cluster.cleaner_pages import read_cleaners
    from monitor.cluster.cleaner_status import why_uncleanable, worst_first
    from monitor.cluster.traffic import metrics_urls
    from monitor.i18n import texts

    urls = metrics_urls(brokers or console_settings(ctx.obj).brokers)
    cleaners = asyncio.run(read_cleaners(urls, ctx.obj.security.page_token))
    with sync_client(ctx, CLIENT_ID) as cluster:
        sizes = {
            (one.broker, *place): replica.size_bytes
            for one in cleaners if one.answers
            for directory in queries.log_dirs(cluster, one.broker)
            for place, replica in directory.replicas.items()
        }  # fmt: skip
    found = worst_first(cleaners)
    rows = [
        {"bytes": sizes.get((one.broker, one.topic, one.partition))} | msgspec.structs.asdict(one)
        for one in found
    ]
    silent = [one.broker for one in cleaners if not one.answers]
    if as_json:
        print_json({
            "partitions": rows, "silent_brokers": silent,
            "brokers": [
                {"broker": one.broker, "since_last_run_ms": one.since_last_run_ms, "dies": one.dies}
                for one in cleaners if one.answers
            ],
        })  # fmt: skip
    else:
        filled = [row for row in rows if row["bytes"] != 0 or row["uncleanable"]]
        show([_table_row(row) for row in filled], _COLUMNS, False)
        if len(filled) < len(rows):
            screen().print(f"{len(rows) - len(filled)} more have no records")
        for bad in found:
            if bad.uncleanable:
                why = why_uncleanable(bad, texts("en"))
                place = f"{bad.topic}-{bad.partition} on broker {bad.broker}"
                screen().print(f"{place} cannot be cleaned{_for(bad.uncleanable_ms)}: {why}",
                               markup=False)  # fmt: skip
        for one in cleaners:
            screen().print(_sentence(one.broker, one.since_last_run_ms, dies=one.dies))
    if silent or any(row["uncleanable"] for row in rows):
        raise typer.Exit(1)


def _table_row(row: dict[str, object]) -> dict[str, object]:
    dirty, size_bytes = row["dirty_percent"], row["bytes"]
    return {
        "topic": row["topic"], "partition": row["partition"], "broker": row["broker"],
        "size": size_text(size_bytes) if isinstance(size_bytes, int) else "",
        "dirty": f"{dirty:.0f} %" if isinstance(dirty, (int, float)) else "",
        "oldest dirty record": _age(row["oldest_dirty_ms"]),
        "last pass": _age(row["last_clean_ms"]),
        "state": "cannot be cleaned" if row["uncleanable"] else "",
    }  # fmt: skip


def _sentence(broker: int, since_last_run_ms: int | None, *, dies: bool) -> str:
    if since_last_run_ms is None:
        return f"broker {broker} does not say anything of a cleaner"
    dying = ", and its process dies again and again: see broker.log" if dies else ""
    return f"broker {broker} looked for work {_age(since_last_run_ms)} ago{dying}"


def _for(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f" for {_age(milliseconds)}"


def _age(milliseconds: object) -> str:
    """`34 s`, `12 min`, `5 h`, `3 d`; nothing where nothing is known."""
    if not isinstance(milliseconds, int):
        return ""
    seconds = milliseconds / 1000
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
