"""Which command of a rule is the newest (pure), for a reader that does not match.

In: commands in any order. Out: whether a command is later than all before it. Never: the commands
themselves: of a rule a number and a mark are kept, so that 100,000 rules are some megabytes.
"""

from __future__ import annotations

from bus.contracts.commands import WatchCommand


class NewestCommands:
    """Invariant: per rule id twice the greatest version, plus one if that is a removal: of two
    commands of one version the removal wins, so that every order ends the same.
    """

    def __init__(self) -> None:
        self._ranks: dict[str, int] = {}

    def apply(self, command: WatchCommand) -> bool:
        """Take a command; False if a later one for the same rule is already known."""
        rank = 2 * command.version + (command.op == "remove")
        if rank <= self._ranks.get(command.rule_id, rank - 1):
            return False
        self._ranks[command.rule_id] = rank
        return True
