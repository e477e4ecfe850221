"""Runs the chosen figures, prints the table, and keeps it in docs/benchmarks.md if asked to.

In: names of figures, how often. Out: a table or JSON; exit status 1 if a `must` is missed.
Never: a figure in the file that this run did not measure, other than those marked with their date.
"""

from __future__ import annotations

import datetime
import json
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypedDict

import msgspec
from rich.table import Table

from bus.cli.show import screen
from deploy.bench import broker_bench, console_bench, flow_bench, matching_bench
from deploy.bench.alarms import measure as alarms
from deploy.bench.cleaner import measure as cleaner
from deploy.bench.cleaner import month
from deploy.bench.cluster import measure as cluster
from deploy.bench.cluster.size import Size
from deploy.bench.fuzzy import measure as fuzzy
from deploy.bench.ingest import measure as ingest
from deploy.bench.machine import facts
from deploy.bench.mirror import measure as mirror
from deploy.bench.plates import measure as plate_tables
from deploy.bench.plates.reader import versions
from deploy.bench.profile import measure as profile
from deploy.bench.profile import tables as profile_tables
from deploy.bench.report import FIGURES, Figure, ReportRow, Samples, report_row
from deploy.bench.security import measure as security
from deploy.bench.video import measure as video
from deploy.cluster.layout import ControllerKind
from deploy.errors import OperatorError
from deploy.paths import BENCHMARKS, PROJECT_ROOT
from deploy.settings.sources import unknown

DOCUMENT = PROJECT_ROOT / "docs" / "benchmarks.md"


def stop_on_signals() -> None:
    """SIGTERM and a closed terminal end a bench as Ctrl-C does: with all servers it has started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def run(names: Sequence[str], *, repeat: int, write: bool, as_json: bool) -> int:
    """Measure; every target has a folder and ports of its own."""
    apart = (
        alarms.PREFIX, cleaner.PREFIX, cluster.PREFIX, fuzzy.PREFIX, ingest.PREFIX, mirror.PREFIX,
        security.PREFIX, video.PREFIX,
    )  # fmt: skip
    one_broker = [name for name in FIGURES if not name.startswith(apart)]
    for name in names:
        if name not in one_broker:
            raise OperatorError(unknown("figure", name, one_broker))
    chosen = list(names) or one_broker
    return _finish(_measure(chosen, repeat), chosen, write=write, as_json=as_json)


def run_cluster(
    only: str,
    *,
    repeat: int,
    size: Size,
    controller: ControllerKind,
    write: bool,
    as_json: bool,
) -> int:
    """The figures of three brokers, or those that begin with the words of `only`."""
    if write and (size.small or controller is not ControllerKind.KRAFT):
        raise OperatorError("only full runs under KRaft are kept in docs/benchmarks.md")
    names = cluster.chosen(only)
    found = cluster.measure(names, repeat, size, controller, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_ingest(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """The figures from capture to store, or those that begin with the words of `only`."""
    names = ingest.chosen(only)
    found = ingest.measure(names, repeat, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_profile(only: str, rates: str, seconds: int, *, steps: bool, as_json: bool) -> int:
    """Where the time and CPU of a batch go, at each rate. Kept nowhere: decision 0087 has some."""
    arrangement = profile.parse_arrangement(only or "b")
    wanted = profile.parse_rates(rates)
    found = profile.profiled(arrangement, wanted, seconds, steps, _say)
    if as_json:
        print(json.dumps({"machine": facts(), "rates": msgspec.to_builtins(found)}))
        return 0
    for one in profile_tables.tables(found):
        screen().print(one)
    return 0


def run_mirror(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """Our mirror beside MirrorMaker 2."""
    names = mirror.chosen(only)
    found = mirror.measure(names, repeat, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_cleaner(only: str, *, repeat: int, days: float, write: bool, as_json: bool) -> int:
    """Our cleaner beside Apache Kafka's, and ours over a month."""
    if write and days != month.DAYS:
        raise OperatorError("only whole months are kept in docs/benchmarks.md")
    names = cleaner.chosen(only)
    found = cleaner.measure(names, repeat, _say, days)
    return _finish(found, names, write=write, as_json=as_json)


def run_fuzzy(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """What fuzzy rules find and cost."""
    names = fuzzy.chosen(only)
    found = fuzzy.measure(names, repeat, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_alarms(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """What alarms cost, and how soon what people ask for is in force."""
    names = alarms.chosen(only)
    found = alarms.measure(names, repeat, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_security(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """What TLS, logins and ACLs cost, beside Apache Kafka."""
    names = security.chosen(only)
    found = security.measure(names, repeat, _say)
    return _finish(found, names, write=write, as_json=as_json)


def run_video(only: str, *, repeat: int, write: bool, as_json: bool) -> int:
    """How good tracks and synopses of films are."""
    names = video.chosen(only)
    return _finish(video.measure(names, repeat, _say), names, write=write, as_json=as_json)


def run_plates(plates: int, *, write: bool, as_json: bool) -> int:
    """How a reader errs. Kept only where both tables rest on as many plates as the page says."""
    if write and plates != plate_tables.PLATES:
        raise OperatorError(f"only {plate_tables.PLATES} plates are kept as tables")
    tables = plate_tables.measure(plates)
    if write:
        plate_tables.write_tables(*tables, versions(), plate_tables.TABLES)
    found = [plate_tables.summary(table) for table in tables]
    if as_json:
        print(json.dumps({"machine": facts(), "fit": found[0], "held_out": found[1]}))
        return 0
    table = Table("", "fit", "held out")
    for name in found[0]:
        table.add_row(name, *(f"{one[name]:g}" for one in found))
    screen().print(table)
    return 0


def _finish(found: Iterable[Samples], names: Sequence[str], *, write: bool, as_json: bool) -> int:
    """A figure's row grows run by run: what is measured is kept even if the rest fails."""
    latest: dict[str, ReportRow] = {}
    for samples in found:
        latest[samples.figure] = report_row(samples)
        if write:
            keep([latest[samples.figure]])
    rows = list(latest.values())
    if as_json:
        print(json.dumps({"machine": facts(), "rows": msgspec.to_builtins(rows)}))
    else:
        screen().print(table(rows))
    missing = [name for name in names if name not in latest]
    if missing:
        _say(f"not measured: {', '.join(missing)}")
    return 0 if not missing and all(each.must_met for each in rows) else 1


def _measure(names: Sequence[str], repeat: int) -> Iterator[Samples]:
    """One side after the other: what is measured is kept even if the rest fails."""
    yield from broker_bench.measure([n for n in names if n in broker_bench.NAMES], repeat, _say)
    yield from flow_bench.measure([n for n in names if n in flow_bench.NAMES], repeat, _say)
    yield from console_bench.measure([n for n in names if n in console_bench.NAMES], repeat, _say)
    yield from matching_bench.measure([n for n in names if n in matching_bench.NAMES], repeat, _say)


def table(rows: Sequence[ReportRow]) -> Table:
    """For people."""
    table = Table(title="measured now, on this machine", title_justify="left")
    for heading in ("figure", "runs", "ours", "Apache Kafka", "ratio", "must", "aim", ""):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    for each in rows:
        table.add_row(*cells(each))
    return table


class StoredResult(TypedDict):
    """One figure in the file of results: its cells as texts, and the runs that they are of."""

    measured: str
    cells: Sequence[str]
    runs: Mapping[str, Sequence[float]]
    machine: Mapping[str, str]


def cells(each: ReportRow) -> tuple[str, ...]:
    """One line as texts."""
    figure = each.figure
    verdict = "aim" if each.aim_met else "must" if each.must_met else "MISSED"
    return (
        figure.title,
        str(each.runs),
        f"{number(each.ours)} {figure.unit}",
        "–" if each.kafka is None else f"{number(each.kafka)} {figure.unit}",
        "–" if each.ratio is None else f"{each.ratio:.2f} ×",
        _bound(figure, figure.must),
        _bound(figure, figure.aim),
        verdict,
    )


def number(value: float) -> str:
    """Three digits that mean something; thousands whole."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def keep(rows: Sequence[ReportRow]) -> None:
    """Put the rows into the kept results, and rewrite the page from all that are kept."""
    results: dict[str, StoredResult] = (
        json.loads(BENCHMARKS.read_text(encoding="utf-8")) if BENCHMARKS.exists() else {}
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for each in rows:
        results[each.figure.name] = {
            "measured": today,
            "cells": cells(each),
            "runs": {"ours": each.ours_runs, "kafka": each.kafka_runs},
            "machine": facts(),
        }
    text = json.dumps(results, indent=1, ensure_ascii=False)
    BENCHMARKS.write_text(text + "\n", encoding="utf-8")
    DOCUMENT.write_text(page(results), encoding="utf-8")


def page(results: Mapping[str, StoredResult]) -> str:
    """The text of docs/benchmarks.md."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `./databus bench --write`; not by hand. Every line says how often it was run",
        "and when; medians. Ratios are against Apache Kafka (4.4; 4.3.0 up to 2026-11-28) in the",
        "same run on the same cores, with the same client (librdkafka, in a process of its own; a",
        "mirror's records are sent by it and read in fetch sessions, as Java's consumer does).",
        "`must` and `aim` are the project's bounds; MISSED is said where a bound is missed.",
        "",
        "| figure | runs | ours | Apache Kafka | ratio | must | aim | reached | measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    machines: list[Mapping[str, str]] = []
    for name in FIGURES:
        if name in results:
            result = results[name]
            machine = result["machine"]
            if machine not in machines:
                machines.append(machine)
            where = f" ({machines.index(machine) + 1})"
            lines.append(f"| {' | '.join(result['cells'])} | {result['measured']}{where} |")
    missing = [FIGURES[name].title for name in FIGURES if name not in results]
    if missing:
        lines += ["", "Not measured yet: " + "; ".join(missing) + "."]
    if machines:
        lines += ["", "The machines, by the number beside the day:", ""]
    for number, machine in enumerate(machines, start=1):
        text = ", ".join(f"{key}: {value}" for key, value in machine.items())
        lines.append(f"{number}. {text}")
    return "\n".join(lines) + "\n"


def _bound(figure: Figure, value: float) -> str:
    sign = "≤" if figure.less_is_better else "≥"
    return f"{sign} {value:g} {'×' if figure.compared else figure.unit}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
