"""Local times as people type them.

In: text, the option that it stands behind. Out: a time. Never: a guess at what was meant.
"""

from __future__ import annotations

from datetime import datetime

import typer


def typed_time(text: str, option: str) -> datetime:
    """ISO 8601, with a zone only if one was typed. Raises `typer.BadParameter`."""
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no local time", param_hint=option) from error
