"""The commands `mirror switch` and `mirror drill`; `report`, `primary`, `gaps` and `copy-anew` are
mounted with them.

In: settings, names of sites. Out: steps as they are done, the report; exit status 1 where a switch
was refused or is not finished. Shells: `planned`, `forced`. Never: a switch whose new
primary the operator has not named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json
from bus.client.admin.own_name import own_name
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_status import MirrorStatus
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.domain.site_epochs import SiteClusters, SiteEpochs
from bus.errors import BusError
from dr_mirror.report.gaps_cli import gaps
from dr_mirror.report.plan.switch_report import ReportError, SwitchStatement
from dr_mirror.report.report_cli import report, show_statement
from dr_mirror.report.report_file import ReportFile, reports_folder
from dr_mirror.status.status_file import StatusUnavailable, read_status, status_path
from dr_mirror.switch.copy_again_cli import copy_again
from dr_mirror.switch.drill import drill, drills_path
from dr_mirror.switch.forced import ForcedSwitch
from dr_mirror.switch.new_second_site import NewSecondSite
from dr_mirror.switch.plan.switch import Obstacle
from dr_mirror.switch.planned import PlannedSwitch
from dr_mirror.switch.primary_cli import primary
from dr_mirror.switch.rejoin import Rejoin
from dr_mirror.switch.site_client import EpochRefused, SiteClient
from dr_mirror.switch.steps import OnStep, SwitchLimits, SwitchRefused, SwitchUnfinished
from dr_mirror.topics.states import Language

TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "begun": "begun", "fenced": "the former primary takes no more records",
        "draining": "still to come", "drained": "the new primary holds all",
        "groups": "groups' offsets are copied", "opened": "the new primary takes records",
        "waiting": "waiting", "cancelled": "the switch before is given up",
        "done": "{new} is the primary since site epoch {number}",
        "nothing": "{new} is the primary already: nothing to do",
        "refused": "The switch was refused; nothing has changed.",
        "took": "from the site epoch to the opening: {ms} ms",
        "claimed": "every leader says where its log ends",
        "drilled": "there: {there} ms; the mirror turned round: {turned} ms; back: {back} ms; "
        "kept in {path}",
        "bound": "read-only at the former primary", "compared": "compared with the primary",
        "cut": "cut", "rejoined": "the former primary is a mirror",
        "came_back": "The former primary is copied to again; once databus mirror status says "
        "copying, databus mirror switch --to makes it the primary.",
    },
    "zh": {
        "begun": "开始", "fenced": "原主站点已停止写入", "draining": "尚待复制",
        "drained": "新主站点已拥有全部记录", "groups": "消费组偏移量已复制",
        "opened": "新主站点已可写入", "waiting": "等待",
        "cancelled": "放弃上一次切换",
        "done": "{new} 自站点纪元 {number} 起为主站点",
        "nothing": "{new} 已是主站点:无需操作",
        "refused": "切换被拒绝;未作任何更改。",
        "took": "从站点纪元到开放写入:{ms} 毫秒",
        "claimed": "各分区主副本已报告日志末尾",
        "drilled": "切出:{there} 毫秒;镜像反向:{turned} 毫秒;切回:{back} 毫秒;记录在 {path}",
        "bound": "原主站点已只读", "compared": "已与主站点比较", "cut": "已截断",
        "rejoined": "原主站点已成为镜像",
        "came_back": "正在重新复制到原主站点;待 databus mirror status 显示 copying 后,"
        "可用 databus mirror switch --to 切回。",
    },
}  # fmt: skip


def mount(mirror: typer.Typer) -> None:
    """Add the commands to `databus mirror`."""
    mirror.command("switch")(switch)
    mirror.command("primary")(primary)
    mirror.command("report")(report)
    mirror.command("gaps")(gaps)
    mirror.command("drill")(run_drill)
    mirror.command("copy-anew")(copy_again)


class NothingToDo(Exception):
    """The site is the primary already; its name."""


@report_errors
def switch(
    ctx: typer.Context,
    to: Annotated[
        str, typer.Option("--to", help="The new primary: one of mirror.…_cluster_alias.")
    ] = "",
    back: Annotated[
        bool,
        typer.Option("--back", help="After --force: the former primary becomes a mirror again."),
    ] = False,
    new_cluster: Annotated[
        bool,
        typer.Option("--new-cluster", help="With --back: it is gone, another one was built there."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="The present primary is lost: take over without it.")
    ] = False,
    it_answers: Annotated[
        bool, typer.Option("--it-answers", help="With --force: even though it still answers.")
    ] = False,
    max_lag_s: Annotated[
        float, typer.Option(help="Refuse while the mirror is further behind.")
    ] = 30.0,
    timeout_s: Annotated[float, typer.Option(help="How long each step may wait.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Make the other site the primary; run it again after an interruption to finish it."""
    limits = SwitchLimits(max_lag_s, timeout_s)
    texts = TEXTS[ctx.obj.site.language]
    with _outcomes(texts):
        if back == bool(to):
            raise SwitchRefused([Obstacle("say --to and the new primary's name, or --back")])
        if new_cluster and not back:
            raise SwitchRefused([Obstacle("--new-cluster goes with --back")])
        if new_cluster:
            done = _replace(ctx, limits, as_json)
        elif back:
            done = _bring_back(ctx, limits, as_json)
        elif force:
            done = _force(ctx, to, limits, it_answers, as_json)
        else:
            done = _switch(ctx, to, limits, as_json)
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        show_statement(done, ctx.obj.site.language)
        if back:
            typer.echo(texts["came_back"])
        else:
            typer.echo(texts["done"].format(new=to, number=done.number))
        if done.took_ms >= 0:
            typer.echo(texts["took"].format(ms=done.took_ms))


@contextmanager
def _outcomes(texts: dict[str, str]) -> Iterator[None]:
    """What ends a command early, in words and exit status."""
    try:
        yield
    except NothingToDo as error:
        typer.echo(texts["nothing"].format(new=error))
        raise typer.Exit(0) from None
    except SwitchRefused as error:
        typer.echo(texts["refused"], err=True)
        for one in error.obstacles:
            place = one.topic if one.partition < 0 else f"{one.topic}-{one.partition}"
            typer.echo(f"{place}: {one.text}" if place else one.text, err=True)
        raise typer.Exit(1) from None
    except (SwitchUnfinished, EpochRefused, StatusUnavailable, ReportError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@report_errors
def run_drill(
    ctx: typer.Context,
    max_lag_s: Annotated[
        float, typer.Option(help="Refuse while the mirror is further behind.")
    ] = 30.0,
    timeout_s: Annotated[float, typer.Option(help="How long each step may wait.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """A planned switch to the other site and back; producers wait or move with it."""
    limits = SwitchLimits(max_lag_s, timeout_s)
    texts, site = TEXTS[ctx.obj.site.language], ctx.obj.site
    with _outcomes(texts):
        source, target = _sites(ctx).values()
        epochs = _epochs(source, target)
        home, other = source.name, target.name
        if epochs.primary == target.cluster_id:
            home, other = other, home
        done = drill(
            lambda: _switch(ctx, other, limits, as_json),
            lambda: _switch(ctx, home, limits, as_json),
            lambda: read_status(status_path(site)), limits, drills_path(site),
        )  # fmt: skip
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    for note in done.notes:
        typer.echo(note)
    typer.echo(texts["drilled"].format(
        there=done.there_ms, turned=done.turned_ms, back=done.back_ms, path=drills_path(site)
    ))  # fmt: skip


def _switch(ctx: typer.Context, to: str, limits: SwitchLimits, as_json: bool) -> SwitchStatement:
    sites = _sites(ctx)
    new, former = _new_and_former(sites, to)
    epochs = _epochs(*sites.values())
    newest = epochs.newest
    if epochs.primary == new.cluster_id:
        if newest is not None and newest.kind is EpochKind.FORCED:
            raise SwitchRefused([Obstacle(f"{new.name} is the primary by force since site epoch "
                                          f"{newest.number}; --force finishes it, --back brings "
                                          f"{former.name} back")])  # fmt: skip
        if newest is None or newest.kind is EpochKind.REJOINED:
            raise NothingToDo(new.name)
    return PlannedSwitch(
        former, new, selection=ctx.obj.mirror.selection, limits=limits,
        on_step=_on_step(ctx, as_json), report=_report_files(ctx),
        read_status=lambda: read_status(status_path(ctx.obj.site)),
    ).run(epochs, own_name())  # fmt: skip


def _force(
    ctx: typer.Context, to: str, limits: SwitchLimits, it_answers: bool, as_json: bool
) -> SwitchStatement:
    new, former = _new_and_former(_sites(ctx), to)
    new.refresh()
    answers = _answers(former)
    if answers and not it_answers:
        raise SwitchRefused([Obstacle(
            f"{former.name} answers: without --force nothing is lost. Only where it answers and is "
            "lost all the same, add --it-answers; what it takes meanwhile is missing then"
        )])  # fmt: skip
    try:
        status = read_status(status_path(ctx.obj.site))
    except StatusUnavailable:
        status = None
    held = new.admin.site_epoch()
    former_id = former.cluster_id or _former_id(new, status, held)
    epochs = SiteEpochs(
        SiteClusters(former_id, new.cluster_id),
        former.admin.site_epoch() if answers else None,
        held,
    )
    check_epochs(epochs)
    newest = epochs.newest
    is_primary = newest is not None and newest.primary == new.cluster_id
    if is_primary and newest is not None and newest.kind is EpochKind.REJOINED:
        raise NothingToDo(new.name)
    return ForcedSwitch(
        new, former_id=former_id, former_name=former.name, limits=limits, status=status,
        report=_report_files(ctx), on_step=_on_step(ctx, as_json),
    ).run(epochs, own_name())  # fmt: skip


def _bring_back(ctx: typer.Context, limits: SwitchLimits, as_json: bool) -> SwitchStatement:
    settings = ctx.obj.mirror
    source, target = _sites(ctx).values()
    epochs = _epochs(source, target)
    buses = settings.source_bus, settings.target_bus
    if epochs.primary == source.cluster_id:
        source, target = target, source
        buses = buses[1], buses[0]
    return Rejoin(
        source, target, former_bus=buses[0], primary_bus=buses[1],
        selection=settings.selection, limits=limits, report=_report_files(ctx),
        diverged_folder=ctx.obj.site.data_path / "mirror" / "tails", on_step=_on_step(ctx, as_json),
    ).run(epochs, own_name())  # fmt: skip


def _answers(site: SiteClient) -> bool:
    try:
        site.refresh()
    except BusError:
        return False
    return True


def _former_id(new: SiteClient, status: MirrorStatus | None, held: SiteEpoch | None) -> str:
    """The cluster that does not answer, by what is known of it. Raises SwitchRefused."""
    if held is not None:
        return held.secondary if held.primary == new.cluster_id else held.primary
    if status is not None and status.target_cluster_id == new.cluster_id:
        return status.source_cluster_id
    sources = {
        source for each in new.topics().values() if (source := each.configs.get(SOURCE_CLUSTER_KEY))
    }
    if len(sources) != 1:
        raise SwitchRefused([Obstacle(
            f"{new.name} is a mirror of {sorted(sources) or 'no cluster'}: nothing says which one "
            "is lost; run the command on the machine of the mirror"
        )])  # fmt: skip
    return sources.pop()


def _new_and_former(by_name: dict[str, SiteClient], to: str) -> tuple[SiteClient, SiteClient]:
    if to not in by_name:
        raise SwitchRefused([Obstacle(f"--to {to}: the sites are {', '.join(by_name)}")])
    [former] = [each for name, each in by_name.items() if name != to]
    return by_name[to], former


def _epochs(source: SiteClient, target: SiteClient) -> SiteEpochs:
    """As both answer now, in the order of the settings: before the first epoch it says who is
    primary. Raises SwitchRefused, BusError."""
    source.refresh()
    target.refresh()
    clusters = SiteClusters(source.cluster_id, target.cluster_id)
    epochs = SiteEpochs(clusters, source.admin.site_epoch(), target.admin.site_epoch())
    check_epochs(epochs)
    return epochs


def _on_step(ctx: typer.Context, as_json: bool) -> OnStep:
    texts = TEXTS[ctx.obj.site.language]

    def on_step(step: str, detail: str) -> None:
        if not as_json:
            typer.echo(f"{texts[step]}: {detail}" if detail else texts[step])

    return on_step


def _report_files(ctx: typer.Context) -> Callable[[int], ReportFile]:
    folder = reports_folder(ctx.obj.site)
    return lambda number: ReportFile(folder, number)


def _replace(ctx: typer.Context, limits: SwitchLimits, as_json: bool) -> SwitchStatement:
    primary, fresh = reversed(_sites(ctx).values())
    for site in (primary, fresh):
        site.refresh()
    held = fresh.admin.site_epoch()
    if held is not None and held.primary == fresh.cluster_id:
        primary, fresh = fresh, primary
    return NewSecondSite(
        fresh, primary, selection=ctx.obj.mirror.selection, limits=limits,
        report=_report_files(ctx), on_step=_on_step(ctx, as_json),
    ).run(own_name())  # fmt: skip


def _sites(ctx: typer.Context) -> dict[str, SiteClient]:
    settings = ctx.obj.mirror
    if settings.target_api != "mirror_append":
        raise SwitchRefused([Obstacle(
            f'mirror.target_api is "{settings.target_api}": topics at an ordinary target are not '
            "read-only and have other offsets; move producers and applications by hand"
        )])  # fmt: skip
    if settings.topic_prefixes:
        raise SwitchRefused([Obstacle(
            "mirror.topic_prefixes: both sites are primary, each for its own topics, and copies "
            "have other names; let producers and applications of a lost site use the other one's"
        )])  # fmt: skip
    if settings.unset_servers:
        typer.echo(settings.unset_servers, err=True)
        raise typer.Exit(1)
    sites = {name: SiteClient(name, bus) for name, bus in settings.bus_by_alias.items()}
    for site in sites.values():
        ctx.call_on_close(site.close)
    return sites


def check_epochs(epochs: SiteEpochs) -> None:
    """Raises SwitchRefused where they are about other clusters."""
    if epochs.is_foreign:
        raise SwitchRefused([
            Obstacle(f"a site epoch is about other clusters than [mirror] names: {epochs.newest}; "
                     "after a site was lost and built anew: mirror switch --back --new-cluster")
        ])  # fmt: skip
