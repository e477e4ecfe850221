"""Who asks at a shell, and why: for every command that is a request, or a question about somebody.

In: what the system knows of its user. Out: names. Never: an account of the console, which needs a
password.
"""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

ISSUER = "command line"
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept with the rule.")]
CaseOption = Annotated[str, typer.Option("--case", help="The number of the case.")]


def login_name() -> str:
    """Empty where the system knows none: in a container without a user of this number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


def shell_user() -> str:
    """Who works at this shell, as its system knows him: no account of the console."""
    name = login_name()
    return f"{name} at the {ISSUER}" if name else ISSUER
