"""The group `lists` with `lists approve` and `lists reject`, which ask for an account with the
role. As `deploy.product.approval_cli` for rules."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from alarm.lists.cli import lists_commands
from alarm.lists.proposals_cli import described_list, settle_list, waiting_list
from alarm.shell_asker import ISSUER, ReasonOption
from bus.contracts.plate_lists import ListCommand
from bus.domain.list_text import list_text_sha256
from deploy.product.approval_cli import AccountOption, ShaOption, checked_approver, confirm_read

ListArgument = Annotated[
    str, typer.Argument(metavar="LIST", help="The list's id, as `lists proposed` shows it.")
]


def mount(app: typer.Typer) -> None:
    """Add the group."""
    lists = lists_commands()
    lists.command("approve")(approve_list)
    lists.command("reject")(reject_list)
    app.add_typer(lists, name="lists")


def approve_list(
    ctx: typer.Context,
    list_id: ListArgument,
    account: AccountOption,
    sha256: ShaOption = "",
    reason: ReasonOption = "",
) -> None:
    """Put what is proposed of a list in force. Nobody approves what he has proposed himself."""
    _settle(ctx, "approve", list_id, account, sha256, reason)
    typer.echo(f"{list_id} is in force")


def reject_list(
    ctx: typer.Context,
    list_id: ListArgument,
    account: AccountOption,
    reason: ReasonOption,
    sha256: ShaOption = "",
) -> None:
    """End what is proposed of a list; its author reads the reason, and its lines go."""
    _settle(ctx, "reject", list_id, account, sha256, reason)
    typer.echo(f"what was proposed under {list_id} is rejected")


def _settle(
    ctx: typer.Context, op: Literal["approve", "reject"], list_id: str, account: str, sha256: str,
    reason: str,
) -> None:  # fmt: skip
    one = waiting_list(ctx, list_id)
    if not sha256:
        confirm_read(lambda: described_list(one), f"{op} this?",
                     "name what you have read, as `lists proposed` shows it")  # fmt: skip
    checked_approver(ctx, account)
    settle_list(ctx, ListCommand(
        list_id=list_id, op=op, account=account, author=account, issuer=ISSUER, reason=reason,
        text_sha256=sha256 or list_text_sha256(one.proposal.text),
        seen_version=one.in_force.version if one.in_force else 0,
    ))  # fmt: skip
