"""`leaders`: elect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, Yes, show
from bus.client.admin import commands
from bus.client.admin.commands import ElectionType, PartitionResult
from bus.client.admin.reassignment_json import read_partitions
from bus.client.model import TopicPartition
from bus.errors import ErrorCode

app = typer.Typer(help="Leaders of partitions: elect.", no_args_is_help=True)


def mount(root: typer.Typer) -> None:
    """Add `leaders` to the command line."""
    root.add_typer(app, name="leaders")


CLIENT_ID = "databus-leaders"
_FINE = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


@app.command("elect")
@report_errors
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
    named = [_partition(word) for word in places or []]
    if file is not None:
        named += read_partitions(file.read_text(encoding="utf-8"))
    if bool(named) == everything:
        raise typer.BadParameter("name partitions (or --file), or say --all; one of them")
    if unclean and not yes:
        typer.confirm("Records that only the lost replicas had will be gone. Elect?", abort=True)
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    with sync_client(ctx, CLIENT_ID) as cluster:
        outcomes = commands.elect(cluster, kind, None if everything else named)
    rows = [row for row in map(_row, outcomes) if as_json or row["result"] != "not needed"]
    if rows or as_json:
        show(rows, ["partition", "result", "why"], as_json)
    else:
        print("no election was needed")
    if any(outcome.code not in _FINE for outcome in outcomes):
        raise typer.Exit(1)


def _row(outcome: PartitionResult) -> dict[str, str]:
    words = {ErrorCode.NONE: "elected", ErrorCode.ELECTION_NOT_NEEDED: "not needed"}
    fine = outcome.code in _FINE
    return {
        "partition": f"{outcome.topic_partition[0]}-{outcome.topic_partition[1]}",
        "result": words.get(outcome.code, outcome.code.name),
        "why": "" if fine else outcome.message or outcome.code.text,
    }


def _partition(word: str) -> TopicPartition:
    topic, hyphen, index = word.rpartition("-")
    if not hyphen or not topic or not index.isdecimal():
        raise typer.BadParameter(f"{word!r} is not topic-partition, like data.vehicle-0")
    return TopicPartition(topic, int(index))
