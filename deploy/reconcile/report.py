"""The account for people (a table and sentences) and for scripts (JSON).

In: an `Reconciliation`. Out: stdout. Never: judging it; `deploy.reconcile.balance` has done that.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from rich.console import Console
from rich.table import Table

from bus.cli.show import screen
from deploy.reconcile.balance import FlowReconciliation, Reconciliation


def print_reconciliation(account: Reconciliation, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        plain = {**msgspec.to_builtins(account), "balanced": account.balanced}
        print(msgspec.json.encode(plain).decode())
        return
    console = screen()
    table = Table(title="the account", title_justify="left")
    for heading in (
        "flow",
        "sent",
        "arrived",
        "directly",
        "valid",
        "stored",
        "rejected",
        "duplicates",
        "in flight",
        "latency p50 / p99",
    ):
        table.add_column(
            heading, justify="left" if heading == "flow" else "right", no_wrap=heading == "flow"
        )
    for flow in account.flows:
        table.add_row(*_cells(flow))
    console.print(table)
    for flow in account.flows:
        if flow.rejected:
            console.print(f"rejected of {flow.kind}: {_reasons(flow)}", highlight=False)
    operators = (
        f", {account.alarms_of_operators} by rules of operators"
        if account.alarms_of_operators
        else ""
    )
    console.print(
        f"alarms: {account.alarms_expected} expected, {account.alarms_raised} raised{operators}, "
        f"{account.alarms_suppressed} suppressed in quiet times, "
        f"{len(account.alarms_missing)} missing, {len(account.alarms_unexpected)} unexpected"
    )
    if account.alarm_latency_p99_ms is not None:
        console.print(
            f"camera → alarm: p50 {account.alarm_latency_p50_ms} ms, "
            f"p99 {account.alarm_latency_p99_ms} ms"
        )
    off = sum(flow.clock_off for flow in account.flows)
    if off:
        console.print(f"left out of the latency: {off} records of devices whose clock is wrong")
    for one in account.accepted:
        console.print(
            f"accepted by {one.by} on {datetime.fromtimestamp(one.at_ms / 1000, UTC):%Y-%m-%d}: "
            f"{one.kind} {one.difference:+d}, {one.reason}", highlight=False, markup=False,
        )  # fmt: skip
    _print_judgement(console, account)


def _print_judgement(console: Console, account: Reconciliation) -> None:
    """Whether it balances, and what cannot be said yet."""
    for fault in account.faults:
        console.print(f"[red]does not balance:[/red] {fault}", highlight=False)
    if account.is_alive:
        console.print(
            "records still come: bus and store agree or not, senders are not judged yet"
        )
    if any(flow.directly_at_most for flow in account.flows):
        console.print(
            "≤: edges may tell later that they took more (one that is away: at its next start)"
        )
    if account.balanced:
        console.print("[green]the account balances to the record[/green]")


def _cells(flow: FlowReconciliation) -> tuple[str, ...]:
    latency = (
        "–"
        if flow.latency_p50_ms is None or flow.latency_p99_ms is None
        else f"{flow.latency_p50_ms} / {flow.latency_p99_ms} ms"
    )
    # None at all is none, whatever edges tell.
    at_most = "≤ " if flow.directly_at_most and flow.directly else ""
    return (
        flow.kind,
        str(flow.sent),
        str(flow.arrived),
        f"{at_most}{flow.directly}",
        str(flow.valid),
        str(flow.stored),
        str(sum(flow.rejected.values())),
        str(flow.duplicates),
        str(flow.in_flight),
        latency,
    )


def _reasons(flow: FlowReconciliation) -> str:
    """The most frequent first."""
    ordered = sorted(flow.rejected.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)
