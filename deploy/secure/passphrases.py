"""The passphrase of an authority's key, from a file, from standard input or from a person.

In: where it comes from. Out: the passphrase. Raises OperatorError. Never: one on a command line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deploy.errors import OperatorError

LEAST_PASSPHRASE = 12
"""Characters: the key of an authority may be taken away and tried for years."""

PassphraseFile = Annotated[
    str | None,
    typer.Option(
        "--passphrase",
        metavar="FILE",
        help="A file whose first line is the passphrase of the authority's key; - is stdin."
        " Else it is asked for.",
    ),
]


def read_passphrase(source: str) -> str:
    """The first line of a file or of standard input. Raises OperatorError."""
    try:
        text = sys.stdin.readline() if source == "-" else Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"the passphrase could not be read from {source}: {error}") from error
    return _checked(text.partition("\n")[0])


def ask_new_passphrase() -> str:
    """Of whoever sits there, twice; empty where nobody does, or wants one made."""
    if not sys.stdin.isatty():
        return ""
    typed: str = typer.prompt(
        "Passphrase of the authority's key (Enter: one is made and shown once)",
        default="", hide_input=True, show_default=False,
    )  # fmt: skip
    if not typed:
        return ""
    if typer.prompt("Once more", hide_input=True) != typed:
        raise OperatorError("the two passphrases differ; nothing was made")
    return _checked(typed)


def ask_passphrase(source: str | None) -> str:
    """That of a key that stands. Raises OperatorError where nobody is there to be asked."""
    if source:
        return read_passphrase(source)
    if not sys.stdin.isatty():
        raise OperatorError("the passphrase of the authority's key is needed: --passphrase FILE")
    typed: str = typer.prompt("Passphrase of the authority's key", hide_input=True)
    return _checked(typed)


def _checked(passphrase: str) -> str:
    if len(passphrase) < LEAST_PASSPHRASE:
        raise OperatorError(
            f"the passphrase has fewer than {LEAST_PASSPHRASE} characters; nothing was made"
        )
    return passphrase
