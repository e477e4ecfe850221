"""How a command ends that has nothing to say yet.

In: the site's language, why. Out: a line on stderr, exit status 1, also with `--json`. Never: an
empty table, or a zero, for what nobody has looked at.
"""

from __future__ import annotations

import typer

from dr_mirror.topics.states import Language

_WORDS: dict[Language, str] = {"en": "not known yet: {why}", "zh": "尚不可知:{why}"}


def not_known_yet(language: Language, why: str) -> typer.Exit:
    """To be raised."""
    typer.echo(_WORDS[language].format(why=why), err=True)
    return typer.Exit(1)
