"""Rows shown to a person as a table, to a script as JSON.

In: rows as plain dicts. Out: standard output. Never: questions to a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, for scripts.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

Rows = Sequence[Mapping[str, object]]
PIPE_COLUMNS = 240
"""A pipe has no width; a table cut off at 80 columns would lose what a grep looks for."""


def show(rows: Rows, columns: Sequence[str], as_json: bool, *, title: str | None = None) -> None:
    """The rows; keys of a row that are no column are for scripts only."""
    if as_json:
        print_json(list(rows))
        return
    table = Table(*(one.replace("_", " ") for one in columns), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(Text(text_of(row.get(column))) for column in columns))
    screen().print(table)


def print_json(value: object) -> None:
    """One line for a script; tuples as lists, names without spaces."""
    print(json.dumps(_scripted(value), ensure_ascii=False))


def _scripted(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key).replace(" ", "_"): _scripted(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scripted(one) for one in value]
    return value


def screen() -> Console:
    """Standard output as wide as the terminal; wide enough for any row where there is none."""
    made = Console()
    return made if made.is_terminal else Console(width=PIPE_COLUMNS)


def text_of(value: object) -> str:
    """A cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def size_text(size_bytes: int) -> str:
    """1536 -> 1.5 KiB."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
