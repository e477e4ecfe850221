"""`watch approve` and `watch reject`: an account with the role, its password, and which text.

In: words, a password that is asked for or piped. Out: the decider's answer. Never: a password among
the arguments; an approval of a text that was not shown or named.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Annotated, Literal

import typer

from alarm.asked_answer import fail
from alarm.command_request import request_answer
from alarm.proposals_cli import described, waiting_under
from alarm.shell_asker import ISSUER, ReasonOption
from bus.client.kafka.command_client import new_command_id
from bus.contracts.commands import WatchCommand
from bus.domain.rule_targets import text_sha256
from bus.runtime import wall_clock
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.roles import ConsoleOperation, ConsolePrincipal, authorise
from monitor.accounts.store import AccountStore

_ID_HELP = "The rule's id, as `watch proposed` shows it."
_ACCOUNT_HELP = "Your account of the console; its password is asked for, or read from a pipe."
_SHA_HELP = "Of the text you have read; without it the text is shown and you are asked."
IdArgument = Annotated[str, typer.Argument(help=_ID_HELP)]
AccountOption = Annotated[str, typer.Option("--account", help=_ACCOUNT_HELP)]
ShaOption = Annotated[str, typer.Option("--sha256", help=_SHA_HELP)]


def mount(watch: typer.Typer) -> None:
    """Add both to the group `watch`."""
    watch.command("approve")(approve)
    watch.command("reject")(reject)


def approve(
    ctx: typer.Context,
    rule_id: IdArgument,
    account: AccountOption,
    sha256: ShaOption = "",
    reason: ReasonOption = "",
) -> None:
    """Put what is proposed under an id in force. Nobody approves what he has proposed himself."""
    _settle(ctx, "approve", rule_id, account, sha256, reason)
    typer.echo(f"{rule_id} is in force")


def reject(
    ctx: typer.Context,
    rule_id: IdArgument,
    account: AccountOption,
    reason: ReasonOption,
    sha256: ShaOption = "",
) -> None:
    """End what is proposed under an id; its author reads the reason."""
    _settle(ctx, "reject", rule_id, account, sha256, reason)
    typer.echo(f"what was proposed under {rule_id} is rejected")


def _settle(
    ctx: typer.Context, op: Literal["approve", "reject"], rule_id: str, account: str, sha256: str,
    reason: str,
) -> None:  # fmt: skip
    one = waiting_under(ctx, rule_id)
    if not sha256:
        confirm_read(lambda: described(ctx, one), f"{op} this text?",
                     "name the text, as `watch proposed` shows it")  # fmt: skip
    who = checked_approver(ctx, account)
    request_answer(ctx, WatchCommand(
        rule_id=rule_id, op=op, version=wall_clock.now_ms(), account=account, author=account,
        issuer=ISSUER, command_id=new_command_id(), reason=reason,
        text_sha256=sha256 or text_sha256(one.proposal.text),
        seen_version=one.in_force.version if one.in_force else 0, unit=who.viewer.unit,
    ), as_json=False)  # fmt: skip


def confirm_read(describe: Callable[[], Iterable[str]], question: str, unnamed: str) -> None:
    """Show what waits, and ask. Raises `typer.BadParameter`, with `unnamed`, where nobody can be
    asked."""
    if not sys.stdin.isatty():
        raise typer.BadParameter(unnamed, param_hint="--sha256")
    for line in describe():
        typer.echo(line)
    typer.confirm(question, abort=True)


def checked_approver(ctx: typer.Context, account: str) -> ConsolePrincipal:
    """Asks for the password. Ends the program for a wrong one, and for an account that may not."""
    password = (
        getpass.getpass(f"password of {account}: ") if sys.stdin.isatty()
        else sys.stdin.readline().rstrip("\n")
    )  # fmt: skip
    try:
        with closing(AccountStore(ctx.obj.site.data_path)) as store:
            who = store.verify(account, password)
    except AccountsUnavailable as error:
        fail(f"databus: {error}")
    if who is None:
        fail(f"databus: {account}: no such account, or another password")
    if not authorise(who, ConsoleOperation.WATCH_APPROVE):
        asked = f"databus accounts roles {account} --role approver …"
        fail(f"databus: {account} may not approve; {asked}")
    return who
