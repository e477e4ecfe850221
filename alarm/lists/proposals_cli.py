"""`lists proposed` and `lists withdraw`: what waits for an approval, and taking it back."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated, NamedTuple

import msgspec
import typer

from alarm.asked_answer import accepted, fail
from alarm.decisions.known_lists import NO_LIST
from alarm.lists.lists_topic import CatchUpTimeout, read_lists
from alarm.shell_asker import ISSUER, shell_user
from bus.cli.show import AsJson, screen
from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import ListCommand, ListRecord
from bus.domain.list_text import list_text_sha256
from bus.errors import BusError
from bus.runtime import wall_clock

CLIENT_ID = "list-proposals"
READ_S = 10.0
_PARTS = (
    "name", "owner", "source", "legal_ground", "date", "severity", "tolerance", "alarms",
    "renewal_days",
)  # fmt: skip
SHOWN_PLATES = 20


class WaitingList(NamedTuple):
    """`in_force`: what it would change; None: nothing is in force."""

    proposal: ListProposal
    in_force: ListRecord | None


def waiting_lists(ctx: typer.Context) -> list[WaitingList]:
    """As they stand on their topic, oldest first; ends the program where it cannot be read."""
    try:
        known = read_lists(ctx.obj.bus, CLIENT_ID, timeout_s=READ_S)
    except (CatchUpTimeout, BusError) as error:
        fail(f"proposals cannot be read: {error}")
    return [
        WaitingList(one, known.in_force.get(one.list_id))
        for one in known.waiting(wall_clock.now_ms())
    ]


def waiting_list(ctx: typer.Context, list_id: str) -> WaitingList:
    """What waits under a list's id. Raises `typer.BadParameter`."""
    for one in waiting_lists(ctx):
        if one.proposal.list_id == list_id:
            return one
    raise typer.BadParameter(f"nothing is proposed under {list_id}; see: databus lists proposed")


def described_list(one: WaitingList) -> list[str]:
    """For people: whose it is and why, and what it changes, a line each."""
    proposal, before = one
    text = proposal.text
    what = "a new list" if before is None else "a change"
    if before is not None and text.op == "put" and text.base != before.base:
        what = "other lines"
    lines = [
        f"{proposal.list_id}: {what} proposed by {proposal.proposed_by}"
        + (f", reason: {text.reason}" if text.reason else "")
        + (f", case: {text.case}" if text.case else ""),
        f"  sha256 {list_text_sha256(text)}",
    ]
    if text.op == "change":
        put = [one.plate for one in text.put_lines] + [one.entry for one in text.put_faces]
        return [*lines, *_plates("put", put), *_plates("removed", list(text.removed_plates))]
    count = 0 if before is None else before.base_lines
    lines.append(f"  lines: {count} → {text.base_lines}, of which {text.removed_lines} go")
    for part in _PARTS:
        was, now = getattr(before or NO_LIST, part), getattr(text, part)
        if before is not None and was != now:
            lines.append(f"  {part}: {_word(was)} → {_word(now)}")
        elif now not in ("", 0):
            lines.append(f"  {part}: {_word(now)}")
    return lines


def list_proposed(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show what waits for an approval, oldest first, with the digest that an approval names."""
    found = waiting_lists(ctx)
    for one in found:
        if as_json:
            typer.echo(json.dumps(_plain(one), ensure_ascii=False))
        else:
            screen().print("\n".join(described_list(one)), markup=False, highlight=False)
    if not found and not as_json:
        typer.echo("nothing waits for an approval")


def withdraw(
    ctx: typer.Context,
    list_id: Annotated[str, typer.Argument(metavar="LIST", help="As `lists proposed` shows it.")],
) -> None:
    """Take back what was proposed at this command line."""
    one = waiting_list(ctx, list_id)
    settle_list(ctx, ListCommand(
        list_id=list_id, op="withdraw", author=shell_user(), issuer=ISSUER,
        text_sha256=list_text_sha256(one.proposal.text),
    ))  # fmt: skip
    typer.echo(f"what was proposed under {list_id} is withdrawn")


def settle_list(ctx: typer.Context, command: ListCommand) -> None:
    """Ends the program, and says why, where it is refused or nobody answers."""
    command = msgspec.structs.replace(command, command_id=new_command_id())
    with closing(CommandClient(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)) as client:
        accepted(ctx, lambda: client.request(command), as_json=False)


def _plain(one: WaitingList) -> dict[str, object]:
    """For scripts; without chunks, which are the readers'."""
    proposal, before = one
    text = {key: getattr(proposal.text, key) for key in ("list_id", "op", *_PARTS)}
    return {
        "list_id": proposal.list_id,
        "text_sha256": list_text_sha256(proposal.text),
        "proposed_by": proposal.proposed_by,
        "proposed_at_ms": proposal.decided_at_ms,
        "ends_ms": proposal.ends_ms,
        "seen_version": before.version if before else 0,
        "reason": proposal.text.reason,
        "case": proposal.text.case,
        "lines": proposal.text.base_lines,
        "removed_lines": proposal.text.removed_lines,
        "text": msgspec.to_builtins(text),
        "put": [one.plate for one in proposal.text.put_lines]
        + [one.entry for one in proposal.text.put_faces],
        "removed": list(proposal.text.removed_plates),
    }


def _plates(what: str, plates: list[str]) -> list[str]:
    more = f" … and {len(plates) - SHOWN_PLATES} more" if len(plates) > SHOWN_PLATES else ""
    return [f"  {what}: {', '.join(plates[:SHOWN_PLATES])}{more}"] if plates else []


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value) or "–"
