"""`leaders`: elect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bus.client.operate import act
from bus.client.operate.act import Election, Outcome
from bus.client.operate.plan_file import read_places
from bus.command.show import AsJson, Yes, show
from bus.command.told import nodes, told
from bus.errors import ErrorCode

app = typer.Typer(help="Leaders of partitions: elect.", no_args_is_help=True)

CLIENT_ID = "databus-leaders"
_FINE = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


@app.command("elect")
@told
def elect(
    ctx: typer.Context,
    places: Annotated[
        list[str] | None, typer.Argument(help="topic-partition, for example data.vehicle-0.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All partitions.")] = False,
    file: Annotated[
        Path | None, typer.Option(help="A list as kafka-leader-election takes it.", exists=True)
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Let any living replica lead a partition without a leader. LOSES "
            "records that only the lost replicas had.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Give leadership back to the first replicas (after brokers were away), or, with --unclean,
    bring partitions back whose in-sync replicas are lost for good."""
    named = [_place(word) for word in places or []]
    if file is not None:
        named += read_places(file.read_text(encoding="utf-8"))
    if bool(named) == everything:
        raise typer.BadParameter("name partitions (or --file), or say --all; one of them")
    if unclean and not yes:
        typer.confirm("Records that only the lost replicas had will be gone. Elect?", abort=True)
    kind = Election.UNCLEAN if unclean else Election.PREFERRED
    with nodes(ctx, CLIENT_ID) as cluster:
        outcomes = act.elect(cluster, kind, None if everything else named)
    rows = [row for row in map(_row, outcomes) if as_json or row["result"] != "not needed"]
    if rows or as_json:
        show(rows, ["partition", "result", "why"], as_json)
    else:
        print("no election was needed")
    if any(outcome.code not in _FINE for outcome in outcomes):
        raise typer.Exit(1)


def _row(outcome: Outcome) -> dict[str, str]:
    words = {ErrorCode.NONE: "elected", ErrorCode.ELECTION_NOT_NEEDED: "not needed"}
    fine = outcome.code in _FINE
    return {
        "partition": f"{outcome.place[0]}-{outcome.place[1]}",
        "result": words.get(outcome.code, outcome.code.name),
        "why": "" if fine else outcome.message or outcome.code.text,
    }


def _place(word: str) -> tuple[str, int]:
    topic, hyphen, index = word.rpartition("-")
    if not hyphen or not topic or not index.isdecimal():
        raise typer.BadParameter(f"{word!r} is not topic-partition, like data.vehicle-0")
    return topic, int(index)
