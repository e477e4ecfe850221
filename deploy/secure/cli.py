"""The commands `secure …`.

In: words, the composed settings in `ctx.obj`. Out: what was made, in words; exit status. Never: the
work itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bus.cli.show import AsJson, print_json
from deploy.secure import pair_cli
from deploy.secure.bundle_cli import bundle_command, open_command
from deploy.secure.check.cli import check_command
from deploy.secure.convert_cli import app as convert_app
from deploy.secure.layout import AUTHORITY_KEY, DEFAULT_FOLDER
from deploy.secure.passphrases import PassphraseFile, ask_new_passphrase, read_passphrase
from deploy.secure.recover_cli import recover_command
from deploy.secure.rotate_cli import app as rotate_app
from deploy.settings.composed import Settings

if TYPE_CHECKING:
    from deploy.secure.init import SiteDirectory

app = typer.Typer(
    help="A closed site: its certificates, its accounts, and who may do what.",
    no_args_is_help=True,
)
MAX_NODES = 30
DEFAULT_NODES = 3


def mount(root: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("check")(check_command)
    pair_cli.mount(app)
    app.command("bundle")(bundle_command)
    app.command("open")(open_command)
    app.command("recover")(recover_command)
    app.add_typer(rotate_app, name="rotate")
    app.add_typer(convert_app, name="convert")
    root.add_typer(app, name="secure")


@app.command("init")
def init_command(
    ctx: typer.Context,
    brokers: Annotated[
        int, typer.Option(min=1, max=MAX_NODES, help="How many brokers get a certificate.")
    ] = DEFAULT_NODES,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A further name or address of this machine; may be given often."),
    ] = None,
    passphrase: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Make the site's authority, a certificate per broker and an account per process.

    All lie in one folder (security.folder; by default `secure` in the data directory) that nobody
    else may read. A folder that stands is left as it is.
    """
    from deploy.secure.account_settings import site_folder
    from deploy.secure.init import init, new_passphrase, own_places, standing

    settings: Settings = ctx.obj
    folder = site_folder(settings)
    found = standing(folder)
    if found is not None:
        _say(found, settings, made=False, shown="", as_json=as_json)
        return
    chosen = read_passphrase(passphrase) if passphrase else "" if as_json else ask_new_passphrase()
    made = init(
        folder, site=settings.site.name, brokers=brokers, places=own_places(host or ()),
        passphrase=chosen or (shown := new_passphrase()),
    )  # fmt: skip
    _say(made, settings, made=True, shown="" if chosen else shown, as_json=as_json)


@app.command("apply")
def apply_command(ctx: typer.Context) -> None:
    """Put users, rights and topics in force; a broker does so by itself whenever it starts."""
    from deploy.secure.account_settings import as_role
    from deploy.secure.apply import apply
    from deploy.supervisor.process_end import end_with_the_supervisor

    end_with_the_supervisor()
    typer.echo(apply(as_role(ctx.obj, "broker")))


def _say(
    found: SiteDirectory, settings: Settings, *, made: bool, shown: str, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "folder": str(found.folder), "made": made, "nodes": found.nodes,
                "accounts": found.accounts, "has_authority_key": found.has_authority_key,
                **({"passphrase": shown} if shown else {}),
            }
        )  # fmt: skip
        return
    typer.echo(
        f"{found.folder} {'is made' if made else 'stands; nothing is changed'}:"
        f" {len(found.nodes)} brokers ({', '.join(found.nodes)}),"
        f" {len(found.accounts)} accounts ({', '.join(found.accounts)})"
    )
    if not made:
        return
    if shown:
        typer.echo(f"passphrase of the authority's key, shown this once: {shown}")
    typer.echo(
        f"{AUTHORITY_KEY} may be taken away to a safe place; what runs does not need it.\n"
        "Try it: ./databus demo --secure --for 60s"
    )
    if not settings.security.folder:
        typer.echo(
            'In force for `./databus up` and all commands with these lines in databus.toml:\n'
            f'[security]\nfolder = "{DEFAULT_FOLDER}"\n'
            "A site that runs is closed without a stop: ./databus secure convert next, before them"
        )
