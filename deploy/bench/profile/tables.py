"""The profile as tables for people: a row for what takes time, a column for each rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.table import Table

from deploy.bench.profile.measure import RateProfile

SMALL_CORES = 0.005
"""Threads below it, at every rate, are no row."""
SMALL_MS = 0.5


def tables(profiles: Sequence[RateProfile]) -> Iterator[Table]:
    """CPU by part and by thread; steps of each query; what the processes tell of themselves."""
    parts = {one.rate: {part.part: part.cores for part in one.parts} for one in profiles}
    for one in profiles:
        parts[one.rate]["all"] = one.cores
    yield _table("CPU by process, cores", parts, "{:.3f}".format, SMALL_CORES)
    threads = {
        one.rate: {
            f"{part.part}: {name}": cores
            for part in one.parts
            for name, cores in part.threads.items()
        }
        for one in profiles
    }
    yield _table("CPU by thread, cores", threads, "{:.3f}".format, SMALL_CORES)
    for query in sorted({steps.query for one in profiles for steps in one.queries}):
        yield _table(f"a batch of {query}, ms", _steps(profiles, query), "{:.1f}".format, SMALL_MS)
    told = {one.rate: one.means_ms for one in profiles}
    yield _table("told by the processes, ms", told, "{:.1f}".format, 0.0)


def _steps(profiles: Sequence[RateProfile], query: str) -> dict[int, dict[str, float]]:
    return {
        one.rate: {
            "batches in the stretch": steps.batches,
            "triggers without a batch": steps.triggers_without,
            "records": steps.records,
            "jobs": steps.jobs,
            "tasks": steps.tasks,
            **steps.steps_ms,
        }
        for one in profiles
        for steps in one.queries
        if steps.query == query
    }


def _table(
    title: str,
    by_rate: Mapping[int, Mapping[str, float]],
    text: Callable[[float], str],
    small: float,
) -> Table:
    """Rows in the order in which the last rate has them."""
    table = Table("", *(f"{rate}/s" for rate in by_rate), title=title, title_justify="left")
    names = dict.fromkeys(n for rows in reversed(list(by_rate.values())) for n in rows)
    for name in names:
        found = [by_rate[rate].get(name) for rate in by_rate]
        if any(value is not None and abs(value) >= small for value in found):
            table.add_row(name, *("–" if value is None else text(value) for value in found))
    return table
