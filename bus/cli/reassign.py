"""`reassign`: plan, apply, verify, cancel, list: replicas move to other brokers, or to other log
directories of theirs."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bus.cli.errors import report_errors, sync_client
from bus.cli.reassign_progress import moving_rows, show_progress
from bus.cli.show import AsJson, Yes, show, size_text
from bus.client.admin import assignment, commands, queries, throttles
from bus.client.admin.assignment import Replicas
from bus.client.admin.commands import PartitionResult
from bus.client.admin.reassignment_json import (
    Directories,
    read_log_dirs,
    read_plan,
    read_topics,
    write_plan,
)
from bus.client.model import TopicDescription, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.errors import ErrorCode

app = typer.Typer(
    help="Move replicas to other brokers: plan, apply, verify, cancel, list.",
    no_args_is_help=True,
)


def mount(root: typer.Typer) -> None:
    """Add `reassign` to the command line."""
    root.add_typer(app, name="reassign")


CLIENT_ID = "databus-reassign"
MISPLACED = "not as planned"
PLACED = (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE)
"""The second: the broker has no such replica yet and remembers where to make it."""
LAG_POLLS, LAG_S = 10, 0.2
"""The controller says that a move is done a moment before every broker has heard of it."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)i?b?(?:/s)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
PlanFile = Annotated[Path, typer.Argument(help="A plan of ours or of Kafka's tool.", exists=True)]
Keep = Annotated[bool, typer.Option(help="Leave the throttles on.")]


@app.command("plan")
@report_errors
def plan(
    ctx: typer.Context,
    topic: Annotated[list[str] | None, typer.Option(help="Only these; may be given often.")] = None,
    topics_file: Annotated[
        Path | None, typer.Option(help="Topics as kafka-reassign-partitions takes them.")
    ] = None,
    brokers: Annotated[
        str | None, typer.Option(help="Where replicas may be: 1,2,3. Default: all alive.")
    ] = None,
    exclude: Annotated[str | None, typer.Option(help="Brokers to vacate: 4,5.")] = None,
    replication_factor: Annotated[int | None, typer.Option(help="A new one, for all.")] = None,
    ignore_racks: Annotated[bool, typer.Option("--ignore-racks", help="As if none.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the plan there, for apply.")] = None,
    as_json: AsJson = False,
) -> None:
    """Work out a balanced assignment with the fewest moves; nothing is changed.

    Without options: even out what all brokers hold and lead. `--json` prints the plan itself.
    """
    names = list(topic or [])
    if topics_file is not None:
        names += read_topics(topics_file.read_text(encoding="utf-8"))
    with sync_client(ctx, CLIENT_ID) as cluster:
        alive = queries.cluster(cluster).alive
        found = queries.topics(cluster)
        missing = sorted(set(names) - {one.name for one in found})
        if missing:
            queries.raise_for_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing[0])
        wanted = _ids(brokers) or [broker.broker_id for broker in alive]
        racks = {b.broker_id: None if ignore_racks else b.rack for b in alive}
        usable = {b: racks.get(b) for b in wanted if b not in _ids(exclude)}
        unknown = [str(broker) for broker in usable if broker not in racks]
        if unknown:
            queries.raise_for_error(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {', '.join(unknown)}")
        chosen = [one for one in found if not names or one.name in names]
        sizes = _sizes(cluster, [broker.broker_id for broker in alive])
    before = _replicas(chosen)
    after = assignment.balanced(
        before,
        usable,
        replication_factor=replication_factor,
        others=_replicas([one for one in found if one not in chosen]),
    )
    changed = assignment.changed(before, after)
    if out is not None and changed:
        out.write_text(write_plan(changed), encoding="utf-8")
    if as_json:
        print(write_plan(changed), end="")
        return
    _print_plan(before, changed, sizes, out)


def _print_plan(
    before: Replicas, changed: Replicas, sizes: dict[TopicPartition, int], out: Path | None
) -> None:
    if not changed:
        print("nothing to move: the replicas are balanced")
        return
    rows = []
    for place, replicas in changed.items():
        new = [broker for broker in replicas if broker not in before[place]]
        copied = size_text(sizes.get(place, 0) * len(new)) if new else "leader only"
        rows.append({"partition": f"{place[0]}-{place[1]}", "now": before[place],
                     "then": replicas, "copies": copied})  # fmt: skip
    show(rows, ["partition", "now", "then", "copies"], as_json=False)
    count = assignment.moves(before, changed)
    total = sum(
        sizes.get(place, 0) * len(set(replicas) - set(before[place]))
        for place, replicas in changed.items()
    )
    print(f"{count} replicas to copy, {size_text(total)}; {len(changed)} partitions change")
    print(f"written to {out}; begin with: databus reassign apply {out}" if out else
          "write it with --out FILE, begin with: databus reassign apply FILE")  # fmt: skip


@app.command("apply")
@report_errors
def apply(
    ctx: typer.Context,
    file: PlanFile,
    limit: Annotated[
        str | None, typer.Option("--throttle", help="At most so much per second: 50MB.")
    ] = None,
    rollback: Annotated[
        Path | None, typer.Option(help="Write the present assignment there; default FILE.rollback")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Show progress until all has moved.")] = True,
    as_json: AsJson = False,
) -> None:
    """Begin the moves of a plan, and show how far they are. Ctrl-C leaves them running.

    Where the plan names `log_dirs`, as Kafka's tool does, replicas move to these directories.
    """
    rate = _rate(limit) if limit else None
    text = file.read_text(encoding="utf-8")
    wanted, dirs = read_plan(text), read_log_dirs(text)
    within = {broker for _, broker in dirs}
    with sync_client(ctx, CLIENT_ID) as cluster:
        before = _present(cluster, wanted)
        back = rollback or file.with_name(file.name + ".rollback")
        back.write_text(write_plan(before), encoding="utf-8")
        if rate is not None:
            commands.alter_configs(
                cluster, throttles.throttle_between_brokers(before, wanted, rate)
            )
            commands.alter_configs(cluster, throttles.throttle_within_brokers(within, rate))
        # First, so that replicas that are to be made are made in the right place.
        placed = [one for one in commands.move_log_dirs(cluster, dirs) if one.code not in PLACED]
        outcomes = placed + commands.reassign(cluster, wanted)
        refused = [one for one in outcomes if one.code]
        if not as_json:
            print(f"{len(outcomes) - len(refused)} partitions move; the way back is in {back}")
        if wait and not as_json and len(refused) < len(outcomes):
            show_progress(cluster, set(wanted), within)
            if rate is not None:
                _release(cluster, wanted, before)
    _print_results(outcomes, as_json, "begun")


@app.command("verify")
@report_errors
def verify(
    ctx: typer.Context, file: PlanFile, keep_throttle: Keep = False, as_json: AsJson = False
) -> None:
    """Say how each move of a plan stands; when all are done, remove the throttles."""
    text = file.read_text(encoding="utf-8")
    wanted, dirs = read_plan(text), read_log_dirs(text)
    with sync_client(ctx, CLIENT_ID) as cluster:
        rows, now = _verdicts(cluster, wanted, dirs)
        for _ in range(LAG_POLLS):
            if not any(row["state"] == MISPLACED for row in rows):
                break
            time.sleep(LAG_S)
            rows, now = _verdicts(cluster, wanted, dirs)
        if not any(row["state"] == "moving" for row in rows) and not keep_throttle:
            _release(cluster, wanted, now)
    show(rows, ["partition", "state", "planned", "now"], as_json)
    if any(row["state"] == MISPLACED for row in rows):
        raise typer.Exit(1)


def _verdicts(
    cluster: SyncClient, wanted: Replicas, dirs: Directories
) -> tuple[list[dict[str, Any]], Replicas]:
    """How each move stands, and where the replicas are now."""
    moving, now = queries.reassignments(cluster), _present(cluster, wanted)
    rows = []
    for place, replicas in sorted(wanted.items()):
        done = now.get(place) == replicas
        state = "moving" if place in moving else "done" if done else MISPLACED
        rows.append({"partition": f"{place[0]}-{place[1]}", "state": state,
                     "planned": replicas, "now": now.get(place)})  # fmt: skip
    return rows + _places(cluster, dirs), now


def _places(cluster: SyncClient, dirs: Directories) -> list[dict[str, Any]]:
    """How each move to a log directory stands."""
    found = {broker: queries.log_dirs(cluster, broker) for broker in sorted({b for _, b in dirs})}
    rows = []
    for (place, broker), path in sorted(dirs.items()):
        held = {one.path: one.replicas[place] for one in found[broker] if place in one.replicas}
        home = [where for where, replica in held.items() if not replica.future]
        moving = any(replica.future for replica in held.values())
        state = "done" if home == [path] and not moving else "moving" if moving else MISPLACED
        rows.append({"partition": f"{place[0]}-{place[1]} on {broker}", "state": state,
                     "planned": path, "now": home[0] if home else None})  # fmt: skip
    return rows


@app.command("cancel")
@report_errors
def cancel(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="The plan; without: --all.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every move there is.")] = False,
    keep_throttle: Keep = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Stop moves: partitions stay with the replicas they had."""
    if (file is None) != everything:
        raise typer.BadParameter("name a plan, or say --all; one of them")
    with sync_client(ctx, CLIENT_ID) as cluster:
        moving = queries.reassignments(cluster)
        wanted = moving.keys() if file is None else read_plan(file.read_text("utf-8")).keys()
        places = [place for place in sorted(wanted) if place in moving]
        if places and not yes:
            typer.confirm(f"Cancel {len(places)} moves?", abort=True)
        outcomes = commands.reassign(cluster, dict.fromkeys(places, None)) if places else []
        if not keep_throttle and places:
            held = {place: list(moving[place].replicas) for place in places}
            _release(cluster, held, {})
    if not outcomes and not as_json:
        print("nothing of it moves")
        return
    _print_results(outcomes, as_json, "cancelled")


@app.command("list")
@report_errors
def list_moves(ctx: typer.Context, as_json: AsJson = False) -> None:
    """What moves now, and how far it is."""
    with sync_client(ctx, CLIENT_ID) as cluster:
        rows = moving_rows(cluster)
    if not rows and not as_json:
        print("nothing moves")
        return
    show(rows, ["partition", "adding", "removing", "copied", "of"], as_json)


def _present(cluster: SyncClient, wanted: Replicas) -> Replicas:
    found = queries.topics(cluster, sorted({topic for topic, _ in wanted}))
    everything = _replicas(found)
    return {place: everything[place] for place in wanted if place in everything}


def _replicas(found: list[TopicDescription]) -> Replicas:
    return {
        TopicPartition(topic.name, partition.index): list(partition.replicas)
        for topic in found
        for partition in topic.partitions
    }


def _release(cluster: SyncClient, wanted: Replicas, present: Replicas) -> None:
    """Remove the throttles that this move may have set, on brokers that are alive."""
    alive = {broker.broker_id for broker in queries.cluster(cluster).alive}
    named = {b for part in (wanted, present) for replicas in part.values() for b in replicas}
    topics = sorted({topic for topic, _ in wanted})
    commands.alter_configs(cluster, throttles.remove_throttles(topics, named & alive))


def _sizes(cluster: SyncClient, brokers: list[int]) -> dict[TopicPartition, int]:
    """The largest replica of each partition."""
    sizes: dict[TopicPartition, int] = {}
    for broker in brokers:
        for log_dir in queries.log_dirs(cluster, broker):
            for place, replica in log_dir.replicas.items():
                sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes


def _print_results(outcomes: list[PartitionResult], as_json: bool, word: str) -> None:
    rows: list[dict[str, Any]] = [
        {
            "partition": f"{one.topic_partition[0]}-{one.topic_partition[1]}",
            "result": one.code.name if one.code else word,
            "why": (one.message or one.code.text) if one.code else "",
        }
        for one in outcomes
    ]
    refused = [row for row in rows if row["why"]]
    if as_json or refused:
        show(rows if as_json else refused, ["partition", "result", "why"], as_json)
    elif word == "cancelled":
        print(f"{len(rows)} moves cancelled")
    if refused:
        raise typer.Exit(1)


def _ids(text: str | None) -> list[int]:
    try:
        return [int(word) for word in (text or "").replace(" ", "").split(",") if word]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 1,2,3") from None


def _rate(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise typer.BadParameter(f"{text!r} is not like 50MB", param_hint="--throttle")
    return int(float(match[1]) * _UNITS[match[2].lower()])
