"""The command `log dump`, mounted by the command line: files of a partition made readable.

In: paths, or names of partitions of the configured broker. Out: lines for people, `--json` for
scripts, as they are read. Never: a whole file in memory; a change to anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from broker.cli import AsJson, Config, log_directories

app = typer.Typer(no_args_is_help=True, help="The files of a partition: dump.")

CUT_CHARACTERS = 120
"""Of a text in a line for people; JSON has it whole."""


def mount(root: typer.Typer) -> None:
    """Add `log ...` to the command line."""
    root.add_typer(app, name="log")


@app.callback()
def log_group() -> None:
    """The files of a partition: dump."""


@app.command("dump")
def dump(
    context: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(help="Files, directories of partitions, or names like data.vehicle-0."),
    ],
    records: Annotated[
        bool, typer.Option("--records", help="Of segments also each record.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Keys and values as bytes, also of __consumer_offsets.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Segments, their indexes and producer snapshots, readable; beside a running broker too.

    Exit status 1 if anything in them is damaged or cannot be read. The newest segment of a running
    broker may end inside a batch.
    """
    from broker.coordinator.group.readable import readable
    from broker.coordinator.group.records import OFFSETS_TOPIC
    from broker.disk.port import DiskError
    from broker.disk.real import RealDisk
    from broker.log.dump import dump_file

    is_sound = True
    for path in _files(context, paths, config):
        directory = path.rpartition("/")[0].rpartition("/")[2]
        of_groups = directory.startswith(f"{OFFSETS_TOPIC}-")
        typer.echo(json.dumps({"kind": "file", "path": path}) if as_json else path)
        try:
            for line in dump_file(
                RealDisk(), path, records=records,
                readable=readable if of_groups and not raw else None,
            ):  # fmt: skip
                is_sound = is_sound and line["kind"] != "damage"
                typer.echo(_json(line) if as_json else _text(line))
        except (DiskError, ValueError) as error:
            is_sound = False
            typer.echo(str(error), err=True)
    raise typer.Exit(0 if is_sound else 1)


def _files(context: typer.Context, paths: list[str], config: Path | None) -> Iterator[str]:
    """Raises Exit where a name is neither a path nor a partition's."""
    from broker.disk.real import RealDisk, absolute_path
    from broker.log.dump import readable_files

    disk = RealDisk()
    for path in paths:
        found = [path] if disk.exists(path) else [
            f"{directory}/{path}"
            for directory in log_directories(context, config)
            if disk.exists(f"{directory}/{path}")
        ]  # fmt: skip
        if not found:
            typer.echo(f"{path}: neither a path nor a partition of this broker", err=True)
            raise typer.Exit(1)
        for one in found:
            yield from readable_files(disk, absolute_path(one))


def _json(line: dict[str, object]) -> str:
    return json.dumps(line, ensure_ascii=False)


def _text(line: dict[str, object]) -> str:
    indent = "    " if line["kind"] in ("record", "control") else "  "
    rest = (f"{name} {_shortened(value)}" for name, value in line.items() if name != "kind")
    return f"{indent}{line['kind']}  " + " · ".join(rest)


def _shortened(value: object) -> str:
    """One line, not too long, and none of what a terminal would take for a command."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    return text if len(text) <= CUT_CHARACTERS else f"{text[:CUT_CHARACTERS]}…"
