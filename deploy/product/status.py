"""How each role is, and how many records wait for it.

In: what the supervisor writes, and the bus where it runs. Out: rows for people and scripts.
Never: starting or stopping anything; the bus's client where nothing runs that it could ask.
"""

from __future__ import annotations

import signal
from typing import Any

from deploy.roles.table import PRODUCT, ROLES, roles_of
from deploy.settings.composed import Settings
from deploy.supervisor.state_file import SUPERVISOR, supervised
from monitor.ports import ProcessStatus

SUPERVISOR_TITLE = "starts the others and keeps them alive"


def roles_with_backlog(settings: Settings) -> list[dict[str, Any]]:
    """How each role is, and what waits for it: `behind` has records by place, None for unknown."""
    rows = roles_state(settings)
    running = {row["role"] for row in rows if row["state"] == "running"}
    # A bus of ours that does not run would be waited for in vain.
    asked = running if "broker" in running or "broker" not in {row["role"] for row in rows} else ()
    if not asked:
        return [{**row, "behind": {}} for row in rows]
    from deploy.reconcile.drain import behind_by_role  # the bus's client; a stopped one has no lag

    behind = behind_by_role(settings, asked)
    return [{**row, "behind": behind.get(row["role"], {})} for row in rows]


def roles_state(settings: Settings) -> list[dict[str, Any]]:
    """How each role is: what its supervisor says, or `stopped` without one."""
    folder = settings.site.data_path
    found = supervised(folder) or [
        ProcessStatus(role=name, state="stopped") for name in roles_of(settings, PRODUCT)
    ]
    return [
        {
            "role": one.role,
            "what": SUPERVISOR_TITLE if one.role == SUPERVISOR else _title(one.role),
            "state": one.state,
            "pid": one.pid,
            "restarts": one.restarts,
            "since_ms": one.since_ms,
            "last_exit": one.last_exit,
            "log": str(folder / "log" / f"{one.role}.log"),
        }
        for one in found
    ]


def ended_with(last_exit: int | None) -> str:
    """What a process ended with, in the words of a shell; empty while none has."""
    if last_exit is None or last_exit >= 0:
        return "" if last_exit is None else f"status {last_exit}"
    try:
        return signal.Signals(-last_exit).name
    except ValueError:
        return f"signal {-last_exit}"


def _title(name: str) -> str:
    """What a role is; the brokers of a cluster are `broker-1` and so on."""
    kind = name if name in ROLES else name.partition("-")[0]
    return ROLES[kind].title if kind in ROLES else ""
