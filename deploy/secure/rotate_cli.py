"""The commands `secure rotate …`.

In: words, the composed settings in `ctx.obj`. Out: what was changed and what comes next, in words.
Never: the work itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bus.cli.show import AsJson, show
from deploy.errors import OperatorError
from deploy.secure.layout import AUTHORITY_CERTIFICATE, account_path
from deploy.secure.passphrases import (
    PassphraseFile,
    ask_new_passphrase,
    ask_passphrase,
    read_passphrase,
)
from deploy.settings.composed import Settings

app = typer.Typer(
    help="New certificates and passwords while everything runs; the old ones count meanwhile.",
    no_args_is_help=True,
)
RESTART = (
    "they read it when they start: stop and start the product (`./databus down`, `./databus up`),"
    " or end them one by one, and their supervisor starts them again"
)
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Although processes here have not read the new ones yet.")
]
Finish = Annotated[bool, typer.Option("--finish", help="Withdraw the old one.")]


@app.command("status")
def status_command(ctx: typer.Context, as_json: AsJson = False) -> None:
    """When certificates end, and what is being changed."""
    from deploy.secure.certificate_rotation import certificate_state

    state = certificate_state(_folder(ctx.obj))
    rows = [
        {"certificate": "authority", "ends": ends.date().isoformat(), "state": "trusted"}
        for ends in state.trusted
    ]
    rows += [
        {
            "certificate": one.node,
            "ends": one.ends.date().isoformat(),
            "state": "" if one.is_of_newest else "of the authority that goes",
        }
        for one in state.nodes
    ]
    show(rows, ("certificate", "ends", "state"), as_json)


@app.command("authority")
def authority_command(
    ctx: typer.Context,
    finish: Finish = False,
    passphrase: PassphraseFile = None,
    anyway: Anyway = False,
) -> None:
    """A new authority beside the old one, whose certificates count until --finish."""
    from deploy.secure.certificate_rotation import begin_authority, finish_authority
    from deploy.secure.init import new_passphrase

    settings: Settings = ctx.obj
    folder = _folder(settings)
    if finish:
        _refuse_where_late(settings, [folder / AUTHORITY_CERTIFICATE], anyway=anyway)
        finish_authority(folder)
        typer.echo("the old authority is withdrawn; whoever starts from now on trusts the new one")
        return
    chosen = read_passphrase(passphrase) if passphrase else ask_new_passphrase()
    shown = "" if chosen else new_passphrase()
    begin_authority(folder, settings.site.name, chosen or shown, datetime.now(UTC))
    if shown:
        typer.echo(f"passphrase of the new authority's key, shown this once: {shown}")
    typer.echo(
        "both authorities are trusted: by brokers within seconds, by others once they start again\n"
        "next, when all have: ./databus secure rotate certificates"
    )


@app.command("certificates")
def certificates_command(
    ctx: typer.Context, passphrase: PassphraseFile = None, anyway: Anyway = False
) -> None:
    """New keys and certificates for the brokers, which take them within seconds."""
    from deploy.secure.certificate_rotation import certificate_state, sign_certificates

    settings: Settings = ctx.obj
    folder = _folder(settings)
    is_changing = certificate_state(folder).is_changing
    if is_changing:
        _refuse_where_late(settings, [folder / AUTHORITY_CERTIFICATE], anyway=anyway)
    signed = sign_certificates(folder, ask_passphrase(passphrase), datetime.now(UTC))
    typer.echo(f"new certificates: {', '.join(signed)}")
    if is_changing:
        typer.echo("next: ./databus secure rotate authority --finish")


@app.command("passwords")
def passwords_command(
    ctx: typer.Context,
    account: Annotated[
        list[str] | None, typer.Argument(help="Of these accounts only; default: all.")
    ] = None,
    finish: Finish = False,
    anyway: Anyway = False,
) -> None:
    """New passwords for accounts; the old ones count until --finish."""
    from bus.client.wire.sync_client import SyncClient
    from bus.contracts.access import OPERATOR
    from bus.errors import BusError
    from deploy.secure.account_settings import as_account
    from deploy.secure.password_rotation import (
        begin_passwords,
        chosen_accounts,
        finish_passwords,
    )

    settings: Settings = ctx.obj
    folder = _folder(settings)
    names = chosen_accounts(folder, account or ())
    if finish:
        files = [account_path(folder, name) for name in names]
        _refuse_where_late(settings, files, anyway=anyway)
    try:
        with SyncClient.of(as_account(settings, OPERATOR).bus, "databus-secure") as client:
            if finish:
                gone = finish_passwords(folder, client, names)
                typer.echo(f"old passwords are withdrawn: {', '.join(gone) or 'there were none'}")
                return
            begin_passwords(folder, client, names)
    except BusError as error:
        raise OperatorError(f"the brokers do not take it: {error}") from error
    typer.echo(
        f"new passwords: {', '.join(names)}; the old ones count as well\n"
        "next, when all have started again: ./databus secure rotate passwords --finish"
    )


def _folder(settings: Settings) -> Path:
    from deploy.secure.account_settings import site_folder
    from deploy.secure.init import check_standing

    return check_standing(site_folder(settings))


def _refuse_where_late(settings: Settings, files: list[Path], *, anyway: bool) -> None:
    from deploy.secure.started_before import started_before

    late = started_before(settings.site.data_path, files)
    if late and not anyway:
        raise OperatorError(
            f"{', '.join(late)} still go by what was before; {RESTART}. --anyway goes on all the"
            " same"
        )
