"""The command `size`.

In: words. Out: a table with the sums behind it, or JSON. Never: the work itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from bus.cli.show import AsJson, screen
from deploy.durations import parse_seconds
from deploy.errors import OperatorError
from deploy.paths import BENCHMARKS


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("size")(size)


def size(
    cameras: Annotated[int, typer.Option(help="How many cameras.")],
    rate: Annotated[float, typer.Option(help="Records a second of each, over the day.")],
    keep: Annotated[str, typer.Option(help="How long records are kept (30d).")] = "30d",
    peak: Annotated[
        float, typer.Option(help="The rush hour's rate over the day's average.")
    ] = 3.0,
    picture_kib: Annotated[
        float, typer.Option(help="KiB of a record's pictures; 0: kept elsewhere.")
    ] = 0.0,
    film_mbit: Annotated[
        float, typer.Option(help="Mbit/s of each camera's film; 0: none is kept.")
    ] = 0.0,
    film_days: Annotated[float, typer.Option(help="Days for which films are kept.")] = 7.0,
    as_json: AsJson = False,
) -> None:
    """How many brokers, executors and region servers a city needs, with the sums behind them.

    Memory and disks too. From the costs of a record that `bench` has measured; docs/sizing.md says
    on what, and what is only assumed.
    """
    from deploy.sizing import size as work
    from deploy.sizing.costs import measured_costs, sources

    try:
        demand = work.Demand(
            cameras, rate, parse_seconds(keep) / work.DAY_S, peak, picture_kib=picture_kib,
            film_mbit=film_mbit, film_days=film_days,
        )
    except work.DemandError as error:
        raise OperatorError(str(error)) from error
    costs, days = measured_costs(BENCHMARKS)
    needs = work.size(demand, costs)
    if as_json:
        answer = {"needs": [asdict(need) for need in needs], "costs": sources(costs, days)}
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    table = Table("what", "how many", "", "how it was computed")
    for need in needs:
        table.add_row(need.what, f"{need.count:,}", need.unit, need.sum)
    screen().print(table)
    behind = Table("cost of a record", "value", "where from")
    for name, value, source in sources(costs, days):
        behind.add_row(name, f"{value:g}", source)
    screen().print(behind)
