"""A rule of the city as a request about the watch list; who asks, and why, is the same for each."""

from __future__ import annotations

from typing import Literal

from bus.client.kafka.command_client import new_command_id
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Expression
from ingest.senders.simulator import names


def put_command(
    rule_id: str, version: int, name: str, *, severity: Literal["warning", "critical"] = "critical",
    match: dict[str, list[str]] | None = None, where: Expression | None = None,
) -> WatchCommand:  # fmt: skip
    """What an operator would put on the watch list."""
    return WatchCommand(
        rule_id=rule_id, op="put", version=version, name=name, severity=severity,
        match=match or {}, where=where, author=names.RULE_AUTHOR, issuer=names.RULE_AUTHOR,
        command_id=new_command_id(), reason=names.RULE_REASON, case=names.RULE_CASE,
    )  # fmt: skip
