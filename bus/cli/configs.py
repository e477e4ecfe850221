"""`configs`: get, set, unset; of topics, brokers, all brokers, loggers; of groups on Apache Kafka.

Groups have configurations with KIP-848, which our broker does not offer yet: it says so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.show import AsJson, show
from bus.cli.topics import pairs
from bus.client.admin import commands, queries
from bus.client.admin.config_resources import (
    BROKER,
    BROKER_LOGGER,
    GROUP,
    TOPIC,
    AlterConfigOp,
)
from bus.client.model import DEFAULT_SOURCE, ConfigEntry

app = typer.Typer(
    help="Configurations of topics, brokers, loggers (Apache Kafka: groups too): get, set, unset.",
    no_args_is_help=True,
)


def mount(root: typer.Typer) -> None:
    """Add `configs` to the command line."""
    root.add_typer(app, name="configs")


CLIENT_ID = "databus-configs"


class ConfigTarget(StrEnum):
    """What has a configuration. `brokers` is the default of all of them."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKERS = "brokers"
    LOGGER = "logger"
    GROUP = "group"


_TYPES = {
    ConfigTarget.TOPIC: TOPIC,
    ConfigTarget.BROKER: BROKER,
    ConfigTarget.BROKERS: BROKER,
    ConfigTarget.LOGGER: BROKER_LOGGER,
    ConfigTarget.GROUP: GROUP,
}
TargetArgument = Annotated[
    ConfigTarget,
    typer.Argument(
        help="topic, broker, brokers (all of them), logger (of a broker); Apache Kafka: group."
    ),
]
NAME_HELP = "Topic, broker id, or group; `-` with brokers."
NameArgument = Annotated[str, typer.Argument(help=NAME_HELP)]


@app.command("get")
@report_errors
def get_configs(
    ctx: typer.Context,
    kind: TargetArgument,
    name: NameArgument = "-",
    word: Annotated[str, typer.Option(help="Only keys that contain this.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Defaults too.")] = False,
    explain: Annotated[bool, typer.Option(help="What each key is for.")] = False,
    as_json: AsJson = False,
) -> None:
    """What is set, where it comes from, and whether it can change while brokers run."""
    resource = _resource(kind, name)
    with sync_client(ctx, CLIENT_ID) as asked:
        entries = queries.configs(asked, *resource, documentation=explain)
    loggers = kind is ConfigTarget.LOGGER
    rows = [
        _row(entry)
        for entry in entries
        if word in entry.name and (everything or loggers or entry.source != DEFAULT_SOURCE)
    ]
    columns = ["key", "value", "from", "fixed while running", *(["for"] if explain else [])]
    show(rows, columns, as_json)


def _row(entry: ConfigEntry) -> dict[str, object]:
    return {
        "key": entry.name,
        "value": "(secret)" if entry.sensitive else entry.value,
        "from": entry.source_name,
        "fixed while running": entry.read_only,
        "for": entry.documentation,
        "synonyms": [list(one) for one in entry.synonyms],
    }


@app.command("set")
@report_errors
def set_configs(
    ctx: typer.Context,
    kind: TargetArgument,
    name: NameArgument,
    values: Annotated[list[str], typer.Argument(help="key=value; several at once.")],
) -> None:
    """Set keys; in force at once. Level of a log: `configs set logger 1 broker.replica=DEBUG`."""
    changes = [(key, AlterConfigOp.SET, value) for key, value in pairs(values).items()]
    with sync_client(ctx, CLIENT_ID) as asked:
        commands.alter_configs(asked, {_resource(kind, name): changes})
    print(f"set on {_target_name(kind, name)}: {', '.join(values)}")


@app.command("unset")
@report_errors
def unset_configs(
    ctx: typer.Context,
    kind: TargetArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(help="Keys; several at once.")],
) -> None:
    """Take back what was set; the next wider setting, or the default, is in force again."""
    with sync_client(ctx, CLIENT_ID) as asked:
        commands.alter_configs(
            asked, {_resource(kind, name): [(key, AlterConfigOp.DELETE, None) for key in keys]}
        )
    print(f"unset on {_target_name(kind, name)}: {', '.join(keys)}")


def _resource(kind: ConfigTarget, name: str) -> tuple[int, str]:
    if kind is ConfigTarget.BROKERS:
        return _TYPES[kind], ""
    if name == "-":
        raise typer.BadParameter(f"which {kind}? {NAME_HELP}", param_hint="name")
    if kind in (ConfigTarget.BROKER, ConfigTarget.LOGGER) and not name.isdecimal():
        raise typer.BadParameter(f"{name!r} is no broker id", param_hint="name")
    return _TYPES[kind], name


def _target_name(kind: ConfigTarget, name: str) -> str:
    return "all brokers" if kind is ConfigTarget.BROKERS else f"{kind} {name}"
