"""Which command of a rule is the newest, for a reader that does not match, too (pure).

In: commands in any order. Out: whether a command changes the rules. Never: the commands themselves:
of a rule a number is kept, so that 100,000 rules are some megabytes.
"""

from __future__ import annotations

from bus.contracts.commands import WatchCommand
from bus.domain.table_versions import TableVersions


def accepted(command: WatchCommand, versions: TableVersions) -> bool:
    """Note a command; whether it changes a rule."""
    if command.op == "floor":
        versions.raise_floor(command.version)
        return False
    return versions.accept(command.rule_id, command.version, is_removal=command.op == "remove")
