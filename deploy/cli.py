"""The command line: global options, this room's verbs, and the verbs that the rooms offer.

In: words. Out: exit status 0, 1 (it did not succeed) or 2 (the words or the settings are wrong).
Never: business logic; a verb calls what does the work and prints what it returns.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from deploy import settings as settings_module
from deploy.errors import OperatorError
from deploy.paths import ROOMS
from deploy.settings_sources import SettingsError
from deploy.verbs import mount_deploy

HELP = """The surveillance data bus: camera to operator on one machine.

Begin with [bold]databus demo[/bold]: broker, edge, Spark, dispatcher, console and a living city of
cameras; it prints the console's address. [bold]databus up[/bold] starts the same without the city.
Settings come from databus.toml, DATABUS_ROOM_KEY variables and --set room.key=value, in this order.
"""

ANYWHERE = ("--data-dir", "--set")
"""Global options that may also stand behind the verb."""

app = typer.Typer(
    name="databus",
    add_completion=False,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def read_settings(
    ctx: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(help="The settings file; default: databus.toml beside this command."),
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, as room.key=value; may be given often."),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where all data live; short for --set site.data_dir=….")
    ] = None,
) -> None:
    """Compose the settings once; every verb finds them in `ctx.obj`."""
    if any(word in ("--help", "-h") for word in sys.argv[1:]):
        return
    flags = [*(assign or []), *([f"site.data_dir={data_dir}"] if data_dir else [])]
    ctx.obj = settings_module.load(config, flags)


def mount_rooms() -> None:
    """Add the verbs of every room that offers some (`<room>/verbs.py` with `mount(app)`)."""
    for room in ROOMS:
        if room != "deploy" and importlib.util.find_spec(f"{room}.verbs") is not None:
            importlib.import_module(f"{room}.verbs").mount(app)


def verb_of(words: Sequence[str]) -> str:
    """The first word that is no option and no option's value; empty where there is none."""
    rest = iter(words)
    for word in rest:
        if word in ("--config", "--set", "--data-dir"):
            next(rest, "")
        elif not word.startswith("-"):
            return word
    return ""


def global_first(words: Sequence[str]) -> list[str]:
    """The same words with `--data-dir` and `--set` in front, where an operator has put them behind
    the verb. Not `--config`: some verbs have one of their own."""
    front: list[str] = []
    behind = list(words)
    end = behind.index("--") if "--" in behind else len(behind)
    at = 0
    while at < end:
        word = behind[at]
        if word in ANYWHERE and at + 1 < end:
            taken = 2
        elif word.partition("=")[0] in ANYWHERE and "=" in word:
            taken = 1
        else:
            at += 1
            continue
        front += behind[at : at + taken]
        del behind[at : at + taken]
        end -= taken
    return front + behind


def main() -> None:
    """Entry point of `python -m deploy`."""
    words = global_first(sys.argv[1:])
    mount_deploy(app)
    if verb_of(words) != "run":  # six roles start at once; none needs the others' verbs
        mount_rooms()
    try:
        app(words, prog_name="databus")
    except SettingsError as error:
        sys.exit(_told(error, 2))
    except OperatorError as error:
        sys.exit(_told(error, 1))


def _told(error: OperatorError, status: int) -> int:
    print(f"databus: {error}", file=sys.stderr)
    return status
