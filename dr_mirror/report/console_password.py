"""The password of a person at a console, for commands that ask it.

In: the environment, else a question. Never: a password on the command line.
"""

from __future__ import annotations

import os

import typer

PASSWORD = "DATABUS_CONSOLE_PASSWORD"


def console_password(question: str) -> str:
    """From the environment, or as it is typed."""
    given: str = os.environ.get(PASSWORD) or typer.prompt(question, hide_input=True)
    return given
