"""`watch proposed` and `watch withdraw`; who approves or rejects needs an account, which `deploy`
asks for (`deploy.product.approval_cli`)."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import typer

from alarm.asked_answer import fail
from alarm.command_request import request_answer
from alarm.proposals_reader import WaitingProposal, read_proposals
from alarm.shell_asker import ISSUER, shell_user
from alarm.watchlist_reader import CatchUpTimeout
from bus.cli.show import screen
from bus.client.kafka.command_client import new_command_id
from bus.contracts.commands import ANY_VERSION, WatchCommand
from bus.domain.expressions.to_text import to_text
from bus.domain.rule_targets import text_sha256
from bus.domain.visibility import EVERY_UNIT
from bus.errors import BusError
from bus.runtime import wall_clock

READ_S = 10.0
CLIENT_ID = "watch-proposals"
_PARTS = (
    "name", "kind", "severity", "match", "where", "valid_from_ms", "valid_until_ms", "note",
    "visible_to", "target",
)  # fmt: skip


def list_proposed(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show what waits for an approval, oldest first, with the digest that an approval names."""
    found = waiting(ctx)
    for one in found:
        if as_json:
            typer.echo(json.dumps(plain(one), ensure_ascii=False))
        else:
            screen().print("\n".join(described(ctx, one)), markup=False, highlight=False)
    if not found and not as_json:
        typer.echo("nothing waits for an approval")


def waiting(ctx: typer.Context) -> list[WaitingProposal]:
    """As they stand on their topic; ends the program where it cannot be read."""
    try:
        return read_proposals(ctx.obj.bus, CLIENT_ID, wall_clock.now_ms(), READ_S)
    except (CatchUpTimeout, BusError) as error:
        fail(f"proposals cannot be read: {error}")


def waiting_under(ctx: typer.Context, rule_id: str) -> WaitingProposal:
    """What waits under a rule's id. Raises `typer.BadParameter`."""
    for one in waiting(ctx):
        if one.proposal.rule_id == rule_id:
            return one
    raise typer.BadParameter(f"nothing is proposed under {rule_id}; see: databus watch proposed")


def plain(one: WaitingProposal) -> dict[str, object]:
    """For scripts."""
    proposal, in_force = one
    return {
        "rule_id": proposal.rule_id,
        "text_sha256": text_sha256(proposal.text),
        "proposed_by": proposal.proposed_by,
        "proposed_at_ms": proposal.decided_at_ms,
        "seen_version": in_force.version if in_force else 0,
        "text": msgspec.to_builtins(proposal.text),
        "in_force": msgspec.to_builtins(in_force) if in_force else None,
    }


def described(ctx: typer.Context, one: WaitingProposal) -> list[str]:
    """For people: whose it is and why, and what it changes, a line each."""
    proposal, in_force = one
    text = proposal.text
    what = "a change" if in_force else "a new rule"
    lines = [
        f"{proposal.rule_id}: {what} proposed by {proposal.proposed_by}"
        + (f", reason: {text.reason}" if text.reason else "")
        + (f", case: {text.case}" if text.case else ""),
        f"  sha256 {text_sha256(text)}",
    ]
    for part in _PARTS:
        after = _written(ctx, text, part)
        before = _written(ctx, in_force, part) if in_force else after
        if before != after:
            lines.append(f"  {part}: {before or '–'} → {after or '–'}")
        elif after:
            lines.append(f"  {part}: {after}")
    return lines


def withdraw(
    ctx: typer.Context,
    rule_id: Annotated[str, typer.Argument(help="The rule's id, as `watch proposed` shows it.")],
) -> None:
    """Take back what was proposed at this command line."""
    one = waiting_under(ctx, rule_id)
    command = WatchCommand(
        rule_id=rule_id, op="withdraw", version=wall_clock.now_ms(), author=shell_user(),
        issuer=ISSUER, command_id=new_command_id(), seen_version=ANY_VERSION,
        text_sha256=text_sha256(one.proposal.text), unit=EVERY_UNIT,
    )  # fmt: skip
    request_answer(ctx, command, as_json=False)
    typer.echo(f"what was proposed under {rule_id} is withdrawn")


def _written(ctx: typer.Context, command: WatchCommand, part: str) -> str:
    value = getattr(command, part)
    if part == "where":
        return to_text(value, ctx.obj.site.zone) if value is not None else ""
    if part == "match":
        return "; ".join(f"{name}={','.join(values)}" for name, values in value.items())
    if part == "visible_to":
        return ", ".join(value)
    return str(value) if value else ""
