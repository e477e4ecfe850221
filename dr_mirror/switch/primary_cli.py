"""The command `mirror primary`: who is the primary by which site epoch, and who has confirmed it.

In: settings, the words of an operator. Out: a table or JSON; with --force a confirmation in the
cluster's metadata; exit status 1 where a site waits to be confirmed, or was not. Core:
`dr_mirror.switch.plan.confirmation`. Never: another site epoch; that is `mirror switch`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json, screen
from bus.client.admin.own_name import own_name
from bus.contracts.site_confirmation import ConfirmedBy, SiteConfirmation, reason_text
from bus.errors import BusError
from bus.runtime.wall_clock import now_ms
from dr_mirror.report.report_cli import local_time
from dr_mirror.switch.plan.confirmation import SiteStanding, force_obstacle
from dr_mirror.switch.site_client import EpochRefused, SiteClient, retried
from dr_mirror.topics.states import Language

CONFIRM_TIMEOUT_S = 15.0
HERE = "here"
"""What a site is called on a machine without `[mirror]`: the one of `[bus]`."""

TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "site": "site", "role": "role", "epoch": "site epoch", "confirmed": "confirmed by",
        "at": "at", "reason": "reason", "waiting": "brokers that wait",
        "primary": "primary", "secondary": "secondary", "first": "before the first switch",
        "away": "does not answer: {error}",
        "choose": "Say --site and one of: {names}",
        "no_reason": "Say --reason and why this site is the primary although nobody could ask the "
        "other one; it is kept.",
        "refused": "{site} was not confirmed; nothing has changed: {why}",
        "nothing": "{site}: every broker is confirmed already; nothing was recorded",
        "done": "{site} takes records: site epoch {epoch} is confirmed by {who}: {reason}",
        "wait": "{site}: topics that are copied to the other site take no records at leaders on "
        "these brokers: {brokers}. A mirror that reaches both sites confirms them by itself; "
        "where it cannot and the other site has surely not taken over: databus mirror primary "
        "--force --reason",
    },
    "zh": {
        "site": "站点", "role": "角色", "epoch": "站点纪元", "confirmed": "确认者", "at": "时间",
        "reason": "原因", "waiting": "待确认的 broker",
        "primary": "主站点", "secondary": "备站点", "first": "首次切换之前",
        "away": "无应答:{error}",
        "choose": "请用 --site 指定其一:{names}",
        "no_reason": "请用 --reason 说明:无法询问另一站点时,为何本站点仍是主站点;该说明会被保存。",
        "refused": "{site} 未被确认,未作任何更改:{why}",
        "nothing": "{site}:所有 broker 均已确认,无需记录",
        "done": "{site} 已可写入:站点纪元 {epoch} 由 {who} 确认:{reason}",
        "wait": "{site}:复制到另一站点的主题在以下 broker 的主副本上暂不可写入:{brokers}。"
        "能连通两站点的镜像会自动确认;若镜像无法确认且另一站点确未接管,"
        "请执行 databus mirror primary --force --reason",
    },
}  # fmt: skip


class SiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """One site as `--json` shows it. `role`: primary, secondary, or first (before any switch);
    `waiting`: ids of brokers whose processes are not confirmed. -1, empty: not known, none."""

    site: str
    cluster_id: str = ""
    role: str = ""
    epoch: int = -1
    confirmed_by: str = ""
    confirmed_ms: int = -1
    who: str = ""
    reason: str = ""
    waiting: list[int] = []
    error: str = ""


@report_errors
def primary(
    ctx: typer.Context,
    force: Annotated[
        bool,
        typer.Option("--force", help="The site is the primary, by your word: its epoch is newest."),
    ] = False,
    reason: Annotated[str, typer.Option(help="With --force: why; it is kept.")] = "",
    site: Annotated[
        str, typer.Option(help="With --force: which site, one of mirror.…_cluster_alias.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Who is the primary, and whether a restarted site waits to be confirmed (exit status 1)."""
    texts = TEXTS[ctx.obj.site.language]
    sites = _sites(ctx)
    if force:
        _force(sites, site, reason, texts, to_stderr=as_json)
    rows = [_row(one) for one in sites]
    if force and not as_json:
        return
    if as_json:
        print_json([msgspec.to_builtins(row) for row in rows])
    else:
        _show(rows, texts)
    if any(row.waiting for row in rows):
        raise typer.Exit(1)


def _sites(ctx: typer.Context) -> list[SiteClient]:
    settings = ctx.obj.mirror
    found = {HERE: ctx.obj.bus} if settings.unset_servers else settings.bus_by_alias
    sites = [SiteClient(name, bus) for name, bus in found.items()]
    for site in sites:
        ctx.call_on_close(site.close)
    return sites


def _row(site: SiteClient) -> SiteRow:
    try:
        standing = _standing(site)
        found = site.admin.site_keys().confirmation
    except BusError as error:
        return SiteRow(site=site.name, error=str(error))
    epoch, role = standing.epoch, "first"
    if epoch is not None:
        role = "primary" if epoch.primary == standing.cluster_id else "secondary"
    row = SiteRow(
        site=site.name, cluster_id=standing.cluster_id, role=role,
        epoch=0 if epoch is None else epoch.number,
        waiting=sorted(standing.waiting or ()),
    )  # fmt: skip
    if found is None:
        return row
    return msgspec.structs.replace(
        row, confirmed_by=found.by.value, confirmed_ms=found.at_ms, who=found.who,
        reason=found.reason,
    )  # fmt: skip


def _standing(site: SiteClient) -> SiteStanding:
    """Raises BusError."""
    site.refresh()
    keys = site.admin.site_keys()
    waiting = None if keys.members is None else frozenset(site.view.nodes) - keys.members
    if keys.epoch is not None and keys.epoch.secondary == site.cluster_id:
        waiting = frozenset()  # it takes no records, whoever confirms
    return SiteStanding(site.cluster_id, keys.epoch, waiting)


def _show(rows: list[SiteRow], texts: dict[str, str]) -> None:
    columns = ("site", "role", "epoch", "confirmed", "at", "reason", "waiting")
    table = Table(*(texts[column] for column in columns))
    for row in rows:
        if row.error:
            cells = [row.site, texts["away"].format(error=row.error), "", "", "", "", ""]
        else:
            at = local_time(row.confirmed_ms) if row.confirmed_ms >= 0 else ""
            by = f"{row.confirmed_by}: {row.who}" if row.who else ""
            waiting = ", ".join(map(str, row.waiting))
            cells = [row.site, texts[row.role], str(row.epoch), by, at, row.reason, waiting]
        table.add_row(*map(Text, cells))
    screen().print(table)
    for row in rows:
        if row.waiting:
            typer.echo(texts["wait"].format(site=row.site, brokers=row.waiting))


def _force(
    sites: list[SiteClient], name: str, reason: str, texts: dict[str, str], *, to_stderr: bool
) -> None:
    words = reason_text(reason)
    if not words:
        typer.echo(texts["no_reason"], err=True)
        raise typer.Exit(1)
    chosen, standing, other = _chosen(sites, name, texts)
    why = force_obstacle(standing, other)
    if why:
        typer.echo(texts["refused"].format(site=chosen.name, why=why), err=True)
        raise typer.Exit(1)
    if not standing.waiting:
        typer.echo(texts["nothing"].format(site=chosen.name), err=to_stderr)
        return
    number = 0 if standing.epoch is None else standing.epoch.number
    who = own_name()
    found = SiteConfirmation(number, ConfirmedBy.OPERATOR, now_ms(), who, words)
    try:
        retried(lambda: chosen.confirm(found), CONFIRM_TIMEOUT_S)
    except EpochRefused as error:
        typer.echo(texts["refused"].format(site=chosen.name, why=error), err=True)
        raise typer.Exit(1) from None
    done = texts["done"].format(site=chosen.name, epoch=number, who=who, reason=words)
    typer.echo(done, err=to_stderr)


def _chosen(
    sites: list[SiteClient], name: str, texts: dict[str, str]
) -> tuple[SiteClient, SiteStanding, SiteStanding | None]:
    """The named site, or the only one that waits; with the other one, None where it is away.
    Raises BusError where the site that is meant does not answer."""
    standings: dict[str, SiteStanding] = {}
    failures: dict[str, BusError] = {}
    for one in sites:
        try:
            standings[one.name] = _standing(one)
        except BusError as error:
            failures[one.name] = error
    if not name and len(sites) == 1:
        name = sites[0].name
    if not name:
        waiting = [each for each, standing in standings.items() if standing.waiting]
        name = waiting[0] if len(waiting) == 1 else ""
    if name in failures:
        raise failures[name]
    if name not in standings:
        names = ", ".join(one.name for one in sites)
        typer.echo(texts["choose"].format(names=names), err=True)
        raise typer.Exit(1)
    [chosen] = [one for one in sites if one.name == name]
    others = [standing for each, standing in standings.items() if each != name]
    return chosen, standings[name], others[0] if others else None
