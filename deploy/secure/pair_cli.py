"""The commands `secure export` and `secure trust`: two closed sites of a mirrored pair.

In: words, the composed settings in `ctx.obj`. Out: what was written, in words. Never: the work
itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deploy.errors import OperatorError
from deploy.settings.composed import Settings


def mount(app: typer.Typer) -> None:
    """Add the commands to `secure`."""
    app.command("export")(export_command)
    app.command("trust")(trust_command)


def export_command(
    ctx: typer.Context,
    site: Annotated[
        str, typer.Argument(help="What [mirror] calls this site: one of mirror.…_cluster_alias.")
    ],
    file: Annotated[Path, typer.Argument(help="The file that is made, for its owner only.")],
) -> None:
    """Write what the other site of a mirrored pair needs to come in here, into one file.

    It holds secrets: this site's authority, the logins of mirror and edge here, what both sites
    share. Carry it to the other site (scp), say `secure trust FILE` there, and delete it.
    """
    from deploy.secure.other_site import export_site

    settings: Settings = ctx.obj
    aliases = settings.mirror.source_cluster_alias, settings.mirror.target_cluster_alias
    if site not in aliases:
        raise OperatorError(f"{site} is none of the two sites; [mirror] calls them {aliases}")
    done = export_site(_folder(settings), site, file)
    typer.echo(
        f"{file} has the authority of {done.name} and the logins of {', '.join(done.accounts)};"
        f" at the other site: ./databus secure trust {file.name}"
    )


def trust_command(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="What the other site's `secure export` wrote.")],
) -> None:
    """Keep what the other site of a mirrored pair has exported, in this site's folder.

    Processes read it when they start. Said again with a newer file, that one counts.
    """
    from deploy.secure.other_site import trust

    settings: Settings = ctx.obj
    done = trust(_folder(settings), file, settings.mirror)
    typer.echo(
        f"{done.name} is the other site: its authority is trusted, and {', '.join(done.accounts)}"
        f" have a login there. Delete {file}"
    )


def _folder(settings: Settings) -> Path:
    from deploy.secure.account_settings import site_folder
    from deploy.secure.init import check_standing

    return check_standing(site_folder(settings))
