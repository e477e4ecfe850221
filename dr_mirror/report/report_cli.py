"""The command `mirror report`, and how a statement of a switch is shown.

In: the files of reports, edges' answers. Out: tables for people, JSON for scripts. Shell:
`dr_mirror.report.edge_refinement`. Never: a statement that was said before, changed.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json, screen
from bus.runtime.wall_clock import now_ms
from bus.settings import SiteSettings
from dr_mirror.report.console_password import PASSWORD, console_password
from dr_mirror.report.edge_refinement import refine
from dr_mirror.report.plan.counts import DeviceLack, hours_around
from dr_mirror.report.plan.switch_loss import SwitchLoss, switch_loss
from dr_mirror.report.plan.switch_report import (
    EDGE,
    FORCED,
    PartitionStatement,
    ReportError,
    SwitchStatement,
)
from dr_mirror.report.report_file import ReportFile, newest_report, reports_folder
from dr_mirror.report.site_counts import CountsUnavailable, console_client, lacking_at
from dr_mirror.topics.states import Language

_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "topic": "topic", "partitions": "partitions", "records": "end offsets, sum",
        "missing": "known to be missing", "heard": "up to what was heard at", "own": "only there",
        "unknown": "Not known yet: what the lost site acknowledged after it was heard last.",
        "again": "sent again", "beyond": "sent again, nobody had heard of them",
        "in_all": "Known to be missing: {known_missing}; edges sent again: {sent_again}; still "
        "missing, of what was heard of: {missing}",
        "final": "The former primary has returned. Only it had, to the record: {own}; edges sent "
        "again: {again}; missing: {missing}",
        "perhaps_there": "Of these up to {count} may be at the new primary all the same: an edge "
        "sent them there as new, not having heard that the lost site had them.",
        "cameras": "Cameras of which the new primary lacks records, by what their senders have "
        "counted; numbers of the present hour still grow",
        "no_camera": "By what their senders have counted, no camera lacks a record there.",
        "hour": "hour from", "kind": "kind", "camera": "camera", "server": "server",
        "sent": "sent", "arrived": "arrived", "lacking": "lacking",
        "password": "Password of {user} at that console",
        "not_heard": "The edge {edge} has not said what it sent again; it is asked again.",
        "no_switch": "no switch was made from this machine",
    },
    "zh": {
        "topic": "主题", "partitions": "分区数", "records": "末尾偏移量之和",
        "missing": "已知缺失", "heard": "截至最后获知时间", "own": "仅原主站点拥有",
        "unknown": "尚不可知:失联站点在最后获知时间之后确认的记录。",
        "again": "已重发", "beyond": "已重发(此前无人获知)",
        "in_all": "已知缺失:{known_missing};接入端已重发:{sent_again};"
        "在已获知的范围内仍缺失:{missing}",
        "final": "原主站点已恢复。仅原主站点拥有(精确到条):{own};接入端已重发:{again};"
        "缺失:{missing}",
        "perhaps_there": "其中至多 {count} 条可能已在新主站点:"
        "接入端未收到失联站点的确认,已作为新记录发送。",
        "cameras": "按发送方计数,新主站点缺少记录的设备;当前小时的数字仍会增长",
        "no_camera": "按发送方计数,没有设备缺少记录。",
        "hour": "小时起", "kind": "类别", "camera": "设备", "server": "识别服务器",
        "sent": "已发送", "arrived": "已到达", "lacking": "缺少",
        "password": "{user} 在该控制台的密码",
        "not_heard": "接入端 {edge} 尚未报告重发的记录;将再次询问。",
        "no_switch": "本机没有进行过切换",
    },
}  # fmt: skip


@report_errors
def report(
    ctx: typer.Context,
    console: Annotated[
        str, typer.Option(help="Of the new primary: which cameras lack records there, is asked.")
    ] = "",
    user: Annotated[str, typer.Option(help=f"Who may look there; password: ${PASSWORD}.")] = "",
    as_json: AsJson = False,
) -> None:
    """What the newest switch of the primary has done, and what is missing by it as far as it is
    known now: edges that have moved are asked what they sent again."""
    language = ctx.obj.site.language
    newest = newest_of(ctx.obj.site)
    mirror, page_token = ctx.obj.mirror, ctx.obj.security.page_token
    left = asyncio.run(refine(newest, mirror.edge_urls, mirror.edge_token or page_token))
    statements = statements_of(newest, language)
    missing = switch_loss(statements)
    cameras = _cameras(console, user, statements, language) if console else None
    if as_json:
        found: dict[str, Any] = {
            "statements": [msgspec.to_builtins(one) for one in statements],
            "missing": msgspec.to_builtins(missing), "edges_not_heard": left,
        }  # fmt: skip
        if cameras is not None:
            found["cameras"] = [_plain(one) for one in cameras]
        print_json(found)
        return
    for one in statements:
        typer.echo(" ".join(filter(None, [f"{one.kind}:", one.source, one.epoch])))
        show_statement(one, language)
    if missing is not None:
        _show_missing(missing, left, language)
    if cameras is not None:
        _show_cameras(cameras, language)


def newest_of(site: SiteSettings) -> ReportFile:
    """Of the newest switch that this machine has made. Exit status 1 where there is none."""
    newest = newest_report(reports_folder(site))
    if newest is None:
        typer.echo(_TEXTS[site.language]["no_switch"], err=True)
        raise typer.Exit(1)
    return newest


def statements_of(report: ReportFile, language: Language) -> list[SwitchStatement]:
    """At least one. Exit status 1 where they cannot be read."""
    try:
        statements = report.read()
    except (OSError, ReportError) as error:
        typer.echo(f"{report.path}: {error}", err=True)
        raise typer.Exit(1) from None
    if not statements:  # its command was killed before it said anything
        typer.echo(_TEXTS[language]["no_switch"], err=True)
        raise typer.Exit(1)
    return statements


def _cameras(
    url: str, user: str, statements: list[SwitchStatement], language: Language
) -> list[DeviceLack]:
    """Those of which the new primary lacks records of the hours around the switch. Exit status 1
    where its console does not say."""
    hours = hours_around(min(one.at_ms for one in statements), now_ms())
    password = console_password(_TEXTS[language]["password"].format(user=user))

    async def ask() -> list[DeviceLack]:
        async with console_client(url, user, password) as client:
            return await lacking_at(client, hours)

    try:
        return asyncio.run(ask())
    except CountsUnavailable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _plain(one: DeviceLack) -> dict[str, object]:
    return {**msgspec.to_builtins(one), "lacking": one.lacking}


def _show_cameras(found: list[DeviceLack], language: Language) -> None:
    texts = _TEXTS[language]
    if not found:
        typer.echo(texts["no_camera"])
        return
    columns = ("hour", "kind", "camera", "server", "sent", "arrived", "lacking")
    table = Table(*(texts[each] for each in columns), title=texts["cameras"], title_justify="left")
    for one in found:
        cells = (local_time(one.hour_ms), one.kind, one.camera_ip, one.recognizer_ip,
                 str(one.sent), str(one.arrived), str(one.lacking))  # fmt: skip
        table.add_row(*map(Text, cells))
    screen().print(table)


def _show_missing(missing: SwitchLoss, left: list[str], language: Language) -> None:
    """What all statements come to."""
    texts = _TEXTS[language]
    word, again = "final" if missing.own >= 0 else "in_all", missing.sent_again + missing.beyond
    typer.echo(texts[word].format(**msgspec.structs.asdict(missing), again=again))
    if missing.perhaps_there:
        typer.echo(texts["perhaps_there"].format(count=missing.perhaps_there))
    for url in left:
        typer.echo(texts["not_heard"].format(edge=url))


def show_statement(done: SwitchStatement, language: Language) -> None:
    """A table per topic, and what is not known."""
    texts = _TEXTS[language]
    of_edge = done.kind == EDGE
    columns = ("again", "beyond") if of_edge else ("records", "missing", "heard", "own")
    table = Table(*(texts[column] for column in ("topic", "partitions", *columns)))
    by_topic: dict[str, list[PartitionStatement]] = {}
    for one in done.partitions:
        by_topic.setdefault(one.topic, []).append(one)
    for topic, parts in by_topic.items():
        cells = _of_edge(parts) if of_edge else _of_switch(parts)
        table.add_row(*map(Text, (topic, str(len(parts)), *cells)))
    screen().print(table)
    for one in done.partitions:
        if one.detail:
            typer.echo(f"{one.topic}-{one.partition}: {one.detail}")
    for note in done.notes:
        typer.echo(note)
    if done.kind == FORCED:
        typer.echo(texts["unknown"])


def _of_edge(parts: list[PartitionStatement]) -> list[str]:
    again = sum(max(one.sent_again, 0) for one in parts)
    return [str(again), str(sum(max(one.sent_again_beyond, 0) for one in parts))]


def _of_switch(parts: list[PartitionStatement]) -> list[str]:
    heard_ms = min((one.heard_ms for one in parts), default=-1)
    ends = sum(max(one.end, 0) for one in parts)
    missing = sum(one.known_missing for one in parts)
    own = sum(one.records for one in parts) if all(one.records >= 0 for one in parts) else ""
    return [str(ends), str(missing), local_time(heard_ms) if heard_ms >= 0 else "", str(own)]


def local_time(at_ms: int) -> str:
    """With its offset: a report is read elsewhere."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).astimezone().isoformat(timespec="seconds")
