"""`databus run ROLE` without the command line's libraries: seven roles start at once, and the watch
has sixty megabytes in all.

In: words. Out: what they ask for, or None for everything that only the whole command line can
answer: help, another command, a word that is wrong. Never: a message of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple


class RoleCommand(NamedTuple):
    """What stands in `[--config FILE] [--set K=V]… [--data-dir DIR] run ROLE`, in any order."""

    role: str
    config: str | None
    flags: list[str]


def parse_role_command(words: Sequence[str]) -> RoleCommand | None:
    """The role and its settings; None where the words are anything else."""
    config, data_dir = None, None
    flags: list[str] = []
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        if name in ("--config", "--set", "--data-dir"):
            value = value if has_value else next(rest, "")
            if name == "--config":
                config = value
            elif name == "--set":
                flags.append(value)
            else:
                data_dir = value
        else:
            plain.append(word)
    if len(plain) != 2 or plain[0] != "run" or plain[1].startswith("-"):
        return None
    if data_dir is not None:
        flags.append(f"site.data_dir={data_dir}")
    return RoleCommand(plain[1], config, flags)


def run_role(command: RoleCommand) -> int:
    """Run it; the exit status. Prints what an operator has to repair, as the command line does."""
    from deploy.errors import OperatorError
    from deploy.roles.run import run
    from deploy.settings.composed import load
    from deploy.settings.sources import SettingsError

    try:
        return run(command.role, load(command.config, command.flags))
    except OperatorError as error:
        print(f"databus: {error}", file=sys.stderr)
        return 2 if isinstance(error, SettingsError) else 1
