"""The command line: global options, the commands of `deploy` and those of every other package.

In: words. Out: exit status 0, 1 (it did not succeed), 2 (the words or the settings are wrong) or 3
(`watch`: nobody has decided yet).
Never: business logic; a command calls what does the work and prints what it returns.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from bus.errors import check
from deploy.command_table import COMMANDS, CommandRow
from deploy.errors import OperatorError
from deploy.settings.sources import SettingsError

HELP = """The surveillance data bus: camera to operator on one machine.

Begin with [bold]databus demo[/bold]: broker, edge, Spark, dispatcher, console and a living city of
cameras; it prints the console's address. [bold]databus up[/bold] starts the same without the city.
Settings come from databus.toml, DATABUS_SECTION_KEY variables and --set section.key=value, in
this order.
"""

ANYWHERE = ("--data-dir", "--set")
"""Global options that may also stand behind the command."""

WITHOUT_ACCOUNT = frozenset({"secure", "demo", "run", "setup", "test", "package", "config"})
"""Commands that speak with no bus, or take an account of their own."""

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
        typer.Option("--set", help="One setting, as section.key=value; may be given often."),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where all data live; short for --set site.data_dir=….")
    ] = None,
) -> None:
    """Compose the settings once; every command finds them in `ctx.obj`."""
    if any(word in ("--help", "-h") for word in sys.argv[1:]):
        return
    from deploy.settings import composed as settings_module  # the list of commands needs none

    flags = [*(assign or []), *([f"site.data_dir={data_dir}"] if data_dir else [])]
    ctx.obj = settings_module.load(config, flags)
    if ctx.obj.security.folder and ctx.invoked_subcommand not in WITHOUT_ACCOUNT:
        from deploy.secure.account_settings import as_command

        ctx.obj = as_command(ctx.obj, ctx.invoked_subcommand or "")


def mount_commands(root: typer.Typer, wanted: Callable[[CommandRow], bool]) -> None:
    """Add every command: those that are wanted from their modules, of the others name and help."""
    loaded = typer.Typer()
    for module in dict.fromkeys(row.module for row in COMMANDS if wanted(row)):
        importlib.import_module(module).mount(loaded)
    commands = {one.name: one for one in loaded.registered_commands}
    groups = {one.name: one for one in loaded.registered_groups}
    for row in COMMANDS:
        if row.name in commands:
            root.registered_commands.append(commands[row.name])
        elif row.name in groups:
            root.registered_groups.append(groups[row.name])
        else:
            root.command(row.name, help=row.help)(_not_loaded)


def _not_loaded() -> None:
    """A command of which only the name is needed: in the list of all, or where a word is wrong."""
    check(False, "a command is loaded before it runs")


def command_of(words: Sequence[str]) -> str:
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
    the command. Not `--config`: some commands have one of their own."""
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
    word = command_of(words)
    mount_commands(app, lambda row: row.name == word)
    try:
        app(words, prog_name="databus")
    except SettingsError as error:
        sys.exit(_print_error(error, 2))
    except OperatorError as error:
        sys.exit(_print_error(error, 1))


def _print_error(error: OperatorError, status: int) -> int:
    print(f"databus: {error}", file=sys.stderr)
    return status
