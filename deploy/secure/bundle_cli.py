"""The commands `secure bundle` and `secure open`.

In: words, the composed settings in `ctx.obj`. Out: a file or a folder, what is in it by name, a
code that is shown once. Never: the work itself; a code on a command line.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from deploy.errors import OperatorError
from deploy.secure.passphrases import PassphraseFile, ask_passphrase, read_passphrase
from deploy.settings.composed import Settings


def bundle_command(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="The machine's name or address.")],
    broker: Annotated[
        list[int] | None, typer.Option(min=1, help="A broker that runs there; may be given often.")
    ] = None,
    account: Annotated[
        list[str] | None,
        typer.Option(help="The account of a process that runs there; may be given often."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to be made; default: HOST.bundle here.")
    ] = None,
    passphrase: PassphraseFile = None,
) -> None:
    """Make the sealed file of one machine: what its processes need of the site's folder.

    It is opened there with the code that is shown once here, or with a passphrase of yours.
    """
    from deploy.secure.account_settings import site_folder
    from deploy.secure.bundle import contents, make_bundle, new_code, write_bundle
    from deploy.secure.init import check_standing

    settings: Settings = ctx.obj
    folder = check_standing(site_folder(settings))
    if not broker and not account:
        raise OperatorError("say what runs there: --broker NUMBER, --account NAME")
    path = out or Path(f"{host}.bundle")
    made = make_bundle(
        folder, host, brokers=broker or (), accounts=account or (), now=datetime.now(UTC)
    )
    code = read_passphrase(passphrase) if passphrase else new_code()
    write_bundle(path, made, code)
    typer.echo(f"{path} is made for {host}: {contents(made)}")
    if not passphrase:
        typer.echo(f"its code, shown this once (tell it on another way than the file): {code}")
    ends = made.ends_at.isoformat(timespec="minutes")
    typer.echo(f"there, until {ends}: ./databus secure open {path.name}")


def open_command(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The bundle of this machine.")],
    passphrase: PassphraseFile = None,
) -> None:
    """Unpack the sealed file of this machine as the site's folder, and delete it."""
    from deploy.secure.account_settings import site_folder
    from deploy.secure.bundle import contents, open_bundle

    settings: Settings = ctx.obj
    folder = site_folder(settings)
    found = open_bundle(file, folder, ask_passphrase(passphrase), datetime.now(UTC))
    typer.echo(f"{folder} is made, for {found.host}: {contents(found)}; {file} is deleted")
