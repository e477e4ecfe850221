"""The command `secure recover`.

In: words, the composed settings in `ctx.obj`. Out: what was lost, what was made again, and what is
to be done. Never: the work itself; a password.
"""

from __future__ import annotations

import typer

from deploy.secure.layout import AUTHORITY_KEY
from deploy.settings.composed import Settings


def recover_command(ctx: typer.Context) -> None:
    """Make lost accounts again, and tell how everything else that is lost is made up for.

    On the machine of a broker that has all accounts; it is started again afterwards.
    """
    from deploy.secure.account_settings import site_folder
    from deploy.secure.init import check_standing
    from deploy.secure.recovery import lost_files, recover_accounts

    settings: Settings = ctx.obj
    folder = check_standing(site_folder(settings))
    lost = lost_files(folder)
    made = recover_accounts(folder)
    if made:
        typer.echo(
            f"made again, each with a new password: {', '.join(made)}\n"
            "in force once this machine's broker has started again; start their processes then.\n"
            "on other machines the files are to be replaced (`./databus secure bundle`)"
        )
    if lost.nodes:
        typer.echo(
            f"lost: the key or the certificate of {', '.join(lost.nodes)}. Nobody can make it"
            " again for a folder that stands: take it from a backup, or make a folder anew"
        )
    if not lost.has_key:
        typer.echo(
            f"{AUTHORITY_KEY} is not here. Where it was taken away: nothing is lost. Where nobody"
            " has it, or its passphrase: ./databus secure rotate authority, and what that says next"
        )
    if not made and not lost.nodes:
        typer.echo("no account and no node is lost")
