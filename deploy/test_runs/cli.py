"""The commands `test` and `simulate`.

In: words, those of pytest and of the simulation among them. Out: their exit status. Never: the work
itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    app.command("test", context_settings=ANY_ARGUMENTS)(run_tests)
    app.command("simulate", context_settings=ANY_ARGUMENTS)(simulate)


def run_tests(
    ctx: typer.Context,
    quick: Annotated[
        bool, typer.Option(help="Without Java, browser and slow tests: under two minutes.")
    ] = False,
    all_stories: Annotated[
        bool,
        typer.Option(help="Only the stories of real brokers and faults, all of both controllers."),
    ] = False,
    every_member: Annotated[
        bool,
        typer.Option(help="Every member of the long matrices; else each commit's turn has some."),
    ] = False,
    stress: Annotated[
        int,
        typer.Option(min=0, help="Repeat the chosen tests so often, beside load on every core."),
    ] = 0,
    repeat: Annotated[
        int,
        typer.Option(min=0, help="So often, each with a seed; kept in docs/runs_by_hand.jsonl."),
    ] = 0,
    write_times: Annotated[
        bool, typer.Option(help="Write where the time goes into docs/test-times.md.")
    ] = False,
) -> None:
    """Run the tests: all of them, or those that the further words (pytest's own) choose.

    The first time it installs what only tests need: packages, and as root the programs of others.
    A test that fails runs once more, alone; not where loss, order or determinism is judged.
    """
    from deploy.test_runs import run

    wanted = run.Wanted(
        quick=quick,
        all_stories=all_stories,
        every_member=every_member,
        stress=stress,
        repeat=repeat,
        write_times=write_times,
        words=tuple(ctx.args),
    )
    raise typer.Exit(run.run(wanted))


def simulate(
    ctx: typer.Context,
    seeds: Annotated[str, typer.Option(help="Which worlds, as 1..300.")] = "1..20",
    seed: Annotated[int | None, typer.Option(help="This one only.")] = None,
    controller: Annotated[str, typer.Option(help="kraft, zookeeper or both.")] = "both",
    sites: Annotated[
        int, typer.Option(min=1, max=2, help="2: a cluster each, a mirror, an edge.")
    ] = 1,
    tables: Annotated[
        bool, typer.Option(help="With a compacted topic that is cleaned; one site.")
    ] = False,
    trace: Annotated[bool, typer.Option(help="Print all that happens in them.")] = False,
    jobs: Annotated[int, typer.Option(help="Worlds at a time.")] = 1,
) -> None:
    """Whole clusters with clients in virtual time, with faults drawn from a seed; all is checked.

    Exit status 1 if a world was not sound; its seed gives the same world again.
    """
    from deploy.test_runs import simulate as work

    words = ["--seeds", seeds, "--controller", controller, "--jobs", str(jobs), *ctx.args]
    words += ["--sites", str(sites)]
    words += [] if seed is None else ["--seed", str(seed)]
    words += ["--tables"] if tables else []
    raise typer.Exit(work.run(words + (["--trace"] if trace else [])))
