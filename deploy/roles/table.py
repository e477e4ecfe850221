"""The processes of one machine: what they are called, where they answer, in what order they go.

This table is the one truth: `up` and `demo` start it, the systemd units and the compose file are
checked against it. In: settings. Out: `Child` values for the supervisor. Never: starting anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deploy.paths import PROJECT_ROOT
from deploy.secure.layout import IN_FORCE
from deploy.settings.composed import Settings
from deploy.supervisor.child import Child, ServiceEndpoint

DEFAULT_LISTENERS = "PLAINTEXT://127.0.0.1:9092"
BROKER = "broker"
STREAMS, ALARM_STREAMS = "streams", "streams-watchlist"
MIRROR = "mirror"
RECORDER = "recorder"


def driver_name(driver: str) -> str:
    """What supervisor, log folder and watch call one of the drivers of a Spark cluster."""
    return f"{STREAMS}-{driver}"


def broker_endpoint(settings: Settings) -> ServiceEndpoint:
    """Where the broker's first listener is (Kafka's key `listeners`)."""
    first = settings.broker.get("listeners", DEFAULT_LISTENERS).split(",")[0]
    host, _, port = first.partition("://")[2].rpartition(":")
    return ServiceEndpoint(host.strip("[]") or "127.0.0.1", int(port), "broker.listeners")


def edge_endpoint(settings: Settings) -> ServiceEndpoint:
    """Where recognition servers post to."""
    return ServiceEndpoint(settings.edge.host, settings.edge.port, "edge.port")


def console_endpoint(settings: Settings) -> ServiceEndpoint:
    """Where the console's pages and API are."""
    return ServiceEndpoint(settings.console.host, settings.console.port, "console.port")


def console_address(settings: Settings) -> str:
    """Where the console's pages are, in words."""
    endpoint = console_endpoint(settings)
    return f"console: http://{endpoint.probe_host}:{endpoint.port}"


@dataclass(frozen=True, slots=True)
class ServiceRole:
    """One kind of process.

    `needs` must be ready before this one starts; `stop_timeout_s` is what a clean stop may take;
    `ready_line` is what a role without an address writes when it is ready.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    stop_timeout_s: float
    endpoint: Callable[[Settings], ServiceEndpoint] | None = None
    ready_line: str = ""


ROLES: dict[str, ServiceRole] = {
    role.name: role
    for role in (
        ServiceRole("broker", "the Kafka-compatible broker with its controller", (), 30,
                    broker_endpoint),
        ServiceRole("edge", "the HTTP edge that recognition servers post to", (), 20,
                    edge_endpoint),
        # They wait for the broker by themselves, while Java starts: that is half of a demo's start.
        ServiceRole(ALARM_STREAMS, "a Spark driver with the watch list alone", (), 45,
                    ready_line="streams: ready"),
        ServiceRole(STREAMS, "the Spark driver with all micro-batch queries", (), 45,
                    ready_line="streams: ready"),
        ServiceRole("dispatcher", "verdicts, once-only alarms, notifiers", ("broker",), 15,
                    ready_line="dispatcher: ready"),
        ServiceRole("console", "API and pages for operators", (), 15, console_endpoint),
        # It needs nobody: what is not there yet is what it is for.
        ServiceRole("watch", "judges by the clock what is away or stands still", (), 10,
                    ready_line="watch: ready"),
        # It needs nobody on its own machine, and waits for both clusters by itself.
        ServiceRole(MIRROR, "copies the bus of one site to another", (), 15,
                    ready_line="mirror: ready"),
        # Where an operator runs it: it needs cameras. It waits for the bus by itself.
        ServiceRole(RECORDER, "keeps the films of cameras", (), 30,
                    ready_line="recorder: ready"),
        # It begins when all are there, so that its latencies are not those of a start.
        ServiceRole("city", "the simulated cameras",
                    ("broker", "edge", ALARM_STREAMS, STREAMS, "dispatcher"), 30),
    )
}  # fmt: skip
PRODUCT = ("broker", "edge", STREAMS, "dispatcher", "console", "watch")  # what `up` starts
DEMO = (*PRODUCT, "city")


def roles_of(settings: Settings, names: Iterable[str]) -> list[str]:
    """These roles, and the second driver where the settings want two."""
    wanted = list(names)
    if settings.streams.drivers == 2 and STREAMS in wanted and ALARM_STREAMS not in wanted:
        wanted.insert(wanted.index(STREAMS), ALARM_STREAMS)
    return wanted


def environment() -> dict[str, str]:
    """What a child of this process is started with."""
    own = {**os.environ, "PYTHONUNBUFFERED": "1", "DATABUS_SUPERVISOR": str(os.getpid())}
    own["PYTHONPATH"] = os.pathsep.join(
        [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    return own


def children(
    settings: Settings,
    names: Iterable[str],
    *,
    others: Sequence[Child] = (),
    stands_for: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Child]:
    """The processes of these roles, in starting order, each with the same settings as ours.

    `others` are there besides them, and some of them instead of a role: who needs that role, needs
    those that `stands_for` names.
    """
    wanted = {name for name in roles_of(settings, names) if name not in stands_for}
    inherited = environment()
    is_secured = bool(settings.security.folder)
    return [
        *others,
        *(
            Child(
                name=role.name,
                command=(sys.executable, "-m", "deploy", *settings.arguments, "run", role.name),
                environment=inherited,
                needs=tuple(
                    name
                    for need in _needs(role, is_secured=is_secured)
                    for name in stands_for.get(need, (need,) if need in wanted else ())
                ),
                endpoint=role.endpoint(settings) if role.endpoint else None,
                ready_line=IN_FORCE if is_secured and role.name == BROKER else role.ready_line,
                stop_timeout_s=role.stop_timeout_s,
            )
            for role in ROLES.values()
            if role.name in wanted
        ),
    ]


def _needs(role: ServiceRole, *, is_secured: bool) -> tuple[str, ...]:
    """In a secured site nobody is let in before users and rights are in force."""
    if not is_secured or role.name == BROKER:
        return role.needs
    return tuple(dict.fromkeys((BROKER, *role.needs)))
