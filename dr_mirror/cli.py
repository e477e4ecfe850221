"""The commands `mirror status` and `mirror verify`.

In: settings, the status file of the role `mirror`. Out: tables for people in the site's language,
JSON for scripts; exit status 1 where something needs a person. Never: a change at either site.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, tzinfo
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json, screen, size_text
from bus.contracts.mirror_status import AclStatus, MirrorStatus, PictureStatus, ProofStatus
from bus.runtime.wall_clock import now_ms
from dr_mirror.policy.picture_policy import PicturePolicy
from dr_mirror.proof.verify import PartitionComparison, verify
from dr_mirror.report.counts_cli import counts
from dr_mirror.status.not_known import not_known_yet
from dr_mirror.status.plan.report import states_of
from dr_mirror.status.status_file import FRESH_MS, StatusUnavailable, read_status, status_path
from dr_mirror.switch.cli import mount as mount_switch
from dr_mirror.topics.states import Language, MirrorState

BLOCK_OFFSETS = 10_000
"""A block of a busy partition is some megabytes; a difference is then found batch by batch."""

_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "topic": "topic", "partition": "partition", "broker": "broker", "state": "state", "lag":
        "lag (records)", "lag_bytes": "lag", "lag_s": "behind (s)", "source_end": "source end",
        "target_end": "target end", "missing": "missing", "detail": "detail",
        "title": "Mirror from {source} to {target}; oldest record not at the target: {rpo} s",
        "drill": "Time without a primary in the last drill (RTO): {rto:.1f} s, {at}",
        "no_drill": "There was no drill yet: the time that a switch takes is not known; see: "
        "databus mirror drill",
        "confirmed": "Cluster {cluster}: site epoch {epoch} confirmed by {by} ({who}) at {at}: "
        "{reason}",
        "unknown": "not known", "old": "This status is {age} s old: the mirror stands still or has "
        "ended; see: databus logs mirror", "remedy": "What to do", "range": "compared offsets",
        "group": "Group {group}: its offsets are not copied: {reason}",
        "blocks": "blocks or keys", "size": "size", "result": "result", "equal": "equal",
        "proof": "What is proven, on every replica; comparing reads {rate}/s",
        "complete_to": "complete up to", "proven": "proven blocks", "unproven": "not yet",
        "oldest": "oldest proof (s)", "differences": "differences", "failures": "not compared now",
        "difference": "{topic}-{partition} DIFFERS on broker {broker}, {directory}, offsets "
        "{first}..{last}, known since {since}: {detail}",
        "not_compared": "Topic {topic} is not compared all the time: {reason}",
        "not_kept": "What is compared is not kept over a restart: {reason}",
        "some_directory": "log directory not known",
        "state_title": "Rules, register, orders, alarms and incidents at the other site",
        "kind": "kind", "carried": "carried", "caught_up": "known there up to",
        "newer_there": "newer there", "problem": "not carried now",
        "edges": "Oldest record not at the target, of what came through edges: {rpo} s",
        "edge": "edge", "sends_to": "sends to", "kept": "kept records",
        "uncovered": "deleted too early", "heard": "heard at",
        "pictures": "Pictures that are copied: {policy}", "waiting": "to come", "copied_pictures":
        "copied", "given_up": "never came, or not taken", "compared": "compared again",
        "differing": "not what the source has", "hits": "those of alarms", "all":
        "those of all records",
        "acls": "ACLs of copied topics and groups: the target has all {carried} that it should, as "
        "of {at}", "acl_problem": "ACLs are not carried: {why}",
        "acl_by_hand": "ACL for many names, to be set at the target by hand if it shall be there",
        "acl_extra": "ACL at the target that the source does not have (any more?)",
        "home": "its own site", "second": "the other site",
        "differs": "DIFFERS at offset {offset}: {detail}", "skipped": "not compared: {reason}",
        "nothing_begun": "the mirror has not compared the topics of both sides yet, or the source "
        "has none that [mirror] selects. Look again in some seconds; see also: databus logs mirror",
        "nothing_compared": "no topic of the target is a copy of the source yet (or again, after a "
        "restart of the mirror or a switch), so that nothing was compared; see: databus mirror "
        "status",
        "no_such_copy": "of these the target has no copy: {names}; see: databus mirror status",
        "proof_not_begun": "What is proven is not known yet: nothing was compared so far",
        "produced": "nothing is compared: with mirror.target_api = \"produce\" batches and offsets "
        "of the target are others than the source's; see: databus mirror status",
    },
    "zh": {
        "topic": "主题", "partition": "分区", "broker": "broker", "state": "状态",
        "lag": "落后(记录)", "lag_bytes": "落后(字节)", "lag_s": "落后(秒)",
        "source_end": "源端末尾", "target_end": "目标端末尾", "missing": "缺失", "detail": "详情",
        "title": "镜像:{source} → {target};目标端尚缺的最早记录:{rpo} 秒",
        "drill": "上次演练中无主站点的时间(RTO):{rto:.1f} 秒,{at}",
        "no_drill": "尚未演练:切换所需时间未知;请看:databus mirror drill",
        "confirmed": "集群 {cluster}:站点纪元 {epoch} 由 {by}({who})于 {at} 确认:{reason}",
        "unknown": "未知",
        "old": "此状态已是 {age} 秒前的:镜像停滞或已结束;请看:databus logs mirror",
        "group": "消费组 {group}:偏移量未复制:{reason}",
        "remedy": "处理办法", "range": "比较的偏移量", "blocks": "块数或键数", "size": "大小",
        "result": "结果", "equal": "一致",
        "proof": "各副本的校验结果;校验读取速率 {rate}/s",
        "complete_to": "完整至", "proven": "已校验块", "unproven": "未校验块",
        "oldest": "最久未校验(秒)", "differences": "差异", "failures": "当前无法校验",
        "difference": "{topic}-{partition} 在 broker {broker}({directory})上不一致,"
        "偏移量 {first}..{last},发现于 {since}:{detail}",
        "not_compared": "主题 {topic} 不做持续校验:{reason}",
        "not_kept": "校验记录在重启后不保留:{reason}",
        "some_directory": "日志目录未知",
        "state_title": "另一站点的布控规则、登记表、统计任务、告警与事件",
        "kind": "类别", "carried": "已传送", "caught_up": "对方已知截至",
        "newer_there": "对方较新", "problem": "当前未传送",
        "edges": "经由接入端的记录,目标端尚缺的最早记录:{rpo} 秒",
        "edge": "接入端", "sends_to": "发往", "kept": "保留的记录", "uncovered": "过早删除",
        "pictures": "图片复制范围:{policy}", "waiting": "待复制", "copied_pictures": "已复制",
        "given_up": "源端始终没有或目标端拒收", "compared": "持续比对", "differing": "与源端不一致",
        "hits": "仅告警图片", "all": "全部记录的图片",
        "acls": "已复制主题与消费组的 ACL:目标端已有应有的全部 {carried} 条,截至 {at}",
        "acl_problem": "ACL 未传送:{why}",
        "acl_by_hand": "涉及多个名称的 ACL,如目标端需要请手工设置",
        "acl_extra": "目标端有而源端没有(或已撤销)的 ACL",
        "heard": "最后应答", "home": "本站点", "second": "另一站点",
        "differs": "在偏移量 {offset} 处不同:{detail}", "skipped": "未比较:{reason}",
        "nothing_begun": "镜像尚未比较两个站点的主题,或源端没有 [mirror] 所选的主题。"
        "请数秒后再看;另见:databus logs mirror",
        "nothing_compared": "目标端尚无(或在镜像重启、切换之后暂无)源端主题的副本,因此没有任何比较;"
        "请看:databus mirror status",
        "no_such_copy": "目标端没有这些主题的副本:{names};请看:databus mirror status",
        "proof_not_begun": "校验结果尚不可知:还没有任何比较",
        "produced": "未比较:mirror.target_api = \"produce\" 时目标端的批次与偏移量与源端不同;"
        "请看:databus mirror status",
    },
}  # fmt: skip

Topics = Annotated[
    list[str] | None, typer.Option("--topic", help="Only this one; may be given several times.")
]


def mount(app: typer.Typer) -> None:
    """Add the commands of this package."""
    mirror = typer.Typer(help="The mirror to the second site.", no_args_is_help=True)
    mirror.command("status")(status)
    mirror.command("verify")(verify_endpoints)
    mirror.command("counts")(counts)
    mount_switch(mirror)
    app.add_typer(mirror, name="mirror")


def status(ctx: typer.Context, as_json: AsJson = False) -> None:
    """What the mirror of this site copies and how far it is; exit status 1: it needs a person."""
    site = ctx.obj.site
    try:
        found = read_status(status_path(site))
    except StatusUnavailable as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    age_ms = now_ms() - found.at_ms
    is_begun = bool(found.topics or found.partitions)
    if as_json:
        print_json({**msgspec.to_builtins(found), "age_ms": age_ms})
    elif is_begun:
        _show_status(found, age_ms, site.language, site.tz)
    if not is_begun:
        why = found.unreachable or _TEXTS[site.language]["nothing_begun"]
        raise not_known_yet(site.language, why)
    if age_ms > FRESH_MS or not _is_well(found):
        raise typer.Exit(1)


def _is_well(found: MirrorStatus) -> bool:
    wrong = [state for state in states_of(found) if state.text.remedy_en]
    is_well = not found.unreachable and not found.pictures.needs_someone
    return is_well and set(wrong) <= {MirrorState.LOOP}


def _show_status(found: MirrorStatus, age_ms: int, language: Language, zone: tzinfo) -> None:
    texts = _TEXTS[language]
    rpo = texts["unknown"] if found.rpo_s < 0 else f"{found.rpo_s:.1f}"
    title = texts["title"].format(
        source=found.source_cluster_id, target=found.target_cluster_id, rpo=rpo
    )
    columns = ("topic", "partition", "state", "lag", "lag_bytes", "lag_s", "source_end",
               "target_end", "missing", "detail")  # fmt: skip
    table = Table(*(texts[column] for column in columns), title=title, title_justify="left")
    copied = {one.topic for one in found.partitions}
    for topic in found.topics:
        if topic.topic not in copied:
            row = [topic.topic, "", topic.state, "", "", "", "", "", "", topic.detail]
            table.add_row(*map(Text, row))
    for one in found.partitions:
        lag = texts["unknown"] if one.lag_records < 0 else str(one.lag_records)
        behind = texts["unknown"] if one.lag_s < 0 else f"{one.lag_s:.1f}"
        row = [one.topic, str(one.partition), one.state, lag, size_text(one.lag_bytes), behind,
               str(one.source_end), str(one.target_end), str(one.missing), one.detail]  # fmt: skip
        table.add_row(*map(Text, row))
    screen().print(table)
    if found.rto_s < 0:
        typer.echo(texts["no_drill"])
    else:
        at = _time(found.drilled_ms, zone)
        typer.echo(texts["drill"].format(rto=found.rto_s, at=at))
    _show_state(found, language, zone)
    _show_edges(found, language, zone)
    _show_proof(found.proof, language, zone)
    _show_pictures(found.pictures, language)
    _show_acls(found.acls, language, zone)
    for confirmed in found.confirmed:
        typer.echo(
            texts["confirmed"].format(
                cluster=confirmed.cluster_id, epoch=confirmed.epoch, by=confirmed.by,
                who=confirmed.who, at=_time(confirmed.at_ms, zone), reason=confirmed.reason,
            )
        )  # fmt: skip
    if age_ms > FRESH_MS:
        typer.echo(texts["old"].format(age=age_ms // 1000))
    if found.unreachable:
        typer.echo(found.unreachable)
    for group, reason in sorted(found.groups_not_copied.items()):
        typer.echo(texts["group"].format(group=group, reason=reason))
    for state in states_of(found):
        if state.text.remedy_en:
            meaning, remedy = state.text.meaning(language), state.text.remedy(language)
            typer.echo(f"{state.value}: {meaning}. {texts['remedy']}: {remedy}")


def _show_state(found: MirrorStatus, language: Language, zone: tzinfo) -> None:
    texts = _TEXTS[language]
    columns = ("kind", "topic", "carried", "caught_up", "newer_there", "problem")
    table = Table(
        *(texts[column] for column in columns), title=texts["state_title"], title_justify="left"
    )
    for one in found.state:
        until = texts["unknown"] if one.caught_up_ms < 0 else _time(one.caught_up_ms, zone)
        row = [one.kind, one.topic, str(one.carried), until, str(one.newer_there), one.problem]
        table.add_row(*map(Text, row))
    screen().print(table)


def _show_edges(found: MirrorStatus, language: Language, zone: tzinfo) -> None:
    if not found.edges:
        return
    texts, rpo_s = _TEXTS[language], found.rpo_through_edges_s
    title = texts["edges"].format(rpo=texts["unknown"] if rpo_s < 0 else f"{rpo_s:.1f}")
    columns = ("edge", "sends_to", "kept", "uncovered", "heard", "detail")
    table = Table(*(texts[column] for column in columns), title=title, title_justify="left")
    for one in found.edges:
        answered = texts["unknown"] if one.heard_ms < 0 else _time(one.heard_ms, zone)
        row = [one.url, texts.get(one.sends_to, one.sends_to), str(one.kept_records),
               str(one.uncovered_records), answered, one.problem]  # fmt: skip
        table.add_row(*map(Text, row))
    screen().print(table)


def _show_pictures(found: PictureStatus, language: Language) -> None:
    if found.policy == PicturePolicy.NONE:
        return
    texts = _TEXTS[language]
    columns = ("copied_pictures", "size", "waiting", "given_up", "compared", "differing", "problem")
    title = texts["pictures"].format(policy=texts[found.policy])
    table = Table(*(texts[column] for column in columns), title=title, title_justify="left")
    wrong = (*found.differing, *found.other)
    row = [str(found.copied), size_text(found.copied_bytes), str(found.waiting),
           str(found.given_up), str(found.compared), str(len(wrong)), found.problem]  # fmt: skip
    table.add_row(*map(Text, row))
    screen().print(table)
    for name in wrong:
        typer.echo(f"{texts['differing']}: {name}")
    for name in found.shown_given_up:
        typer.echo(f"{texts['given_up']}: {name}")


def _show_acls(found: AclStatus, language: Language, zone: tzinfo) -> None:
    texts = _TEXTS[language]
    if found.at_ms >= 0:
        at = _time(found.at_ms, zone)
        typer.echo(texts["acls"].format(carried=found.carried, at=at))
    for word, acls in (("acl_by_hand", found.by_hand), ("acl_extra", found.only_at_target)):
        for acl in acls:
            typer.echo(f"{texts[word]}: {acl}")
    if found.problem:
        typer.echo(texts["acl_problem"].format(why=found.problem))


def _show_proof(proof: ProofStatus, language: Language, zone: tzinfo) -> None:
    texts = _TEXTS[language]
    if not proof.topics and not proof.not_compared:
        typer.echo(texts["proof_not_begun"])
        return
    columns = ("topic", "complete_to", "proven", "unproven", "oldest", "differences", "failures")
    title = texts["proof"].format(rate=size_text(round(proof.bytes_per_s)))
    table = Table(*(texts[column] for column in columns), title=title, title_justify="left")
    for one in proof.topics:
        complete = texts["unknown"] if one.complete_to_ms < 0 else _time(one.complete_to_ms, zone)
        oldest = texts["unknown"] if one.oldest_s < 0 else f"{one.oldest_s:.0f}"
        row = [one.topic, complete, str(one.blocks), str(one.unproven_blocks), oldest,
               str(one.differences), "; ".join(one.failures)]  # fmt: skip
        table.add_row(*map(Text, row))
    screen().print(table)
    for found in proof.differences:
        typer.echo(
            texts["difference"].format(
                topic=found.topic, partition=found.partition, broker=found.broker,
                directory=found.directory or texts["some_directory"],
                first=found.first_offset, last=found.end_offset - 1,
                since=_time(found.found_ms, zone), detail=found.detail,
            )
        )  # fmt: skip
    for topic, reason in sorted(proof.not_compared.items()):
        typer.echo(texts["not_compared"].format(topic=topic, reason=reason))
    if proof.unavailable:
        typer.echo(texts["not_kept"].format(reason=proof.unavailable))


def _time(at_ms: int, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


@report_errors
def verify_endpoints(
    ctx: typer.Context,
    topic: Topics = None,
    block_offsets: Annotated[
        int, typer.Option(min=1, help="Offsets whose batches are compared as one block.")
    ] = BLOCK_OFFSETS,
    replicas: Annotated[
        bool, typer.Option("--replicas", help="Every replica at the target, not only the leader's.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what both sites hold, batch for batch; exit status 1: something differs, or
    nothing was compared."""
    settings = ctx.obj.mirror
    if settings.unset_servers:
        typer.echo(settings.unset_servers, err=True)
        raise typer.Exit(1)
    if settings.target_api == "produce":
        typer.echo(_TEXTS[ctx.obj.site.language]["produced"], err=True)
        raise typer.Exit(1)
    found = asyncio.run(verify(settings, topic or [], block_offsets, replicas=replicas))
    if as_json:
        print_json([msgspec.to_builtins(one) for one in found])
    elif found:
        _show_comparisons(found, ctx.obj.site.language)
    texts = _TEXTS[ctx.obj.site.language]
    if lacking := sorted(set(topic or []) - {one.topic for one in found}):
        why = texts["no_such_copy"].format(names=", ".join(lacking))
        raise not_known_yet(ctx.obj.site.language, why)
    if all(one.skipped for one in found):
        raise not_known_yet(ctx.obj.site.language, texts["nothing_compared"])
    if any(one.differs_at >= 0 for one in found):
        raise typer.Exit(1)


def _show_comparisons(found: list[PartitionComparison], language: Language) -> None:
    texts = _TEXTS[language]
    columns = ("topic", "partition", "broker", "range", "blocks", "size", "result")
    table = Table(*(texts[column] for column in columns))
    for one in found:
        table.add_row(*map(Text, _comparison_row(one, texts)))
    screen().print(table)


def _comparison_row(one: PartitionComparison, texts: dict[str, str]) -> list[Any]:
    result = texts["equal"]
    if one.differs_at >= 0:
        result = texts["differs"].format(offset=one.differs_at, detail=one.detail)
    elif one.skipped:
        result = texts["skipped"].format(reason=one.skipped)
    partition = "" if one.partition < 0 else str(one.partition)
    broker = "" if one.broker < 0 else str(one.broker)
    covered = "" if one.first_offset < 0 else f"{one.first_offset}..{one.end_offset}"
    compared = str(one.blocks or one.keys)
    return [one.topic, partition, broker, covered, compared, size_text(one.size_bytes), result]
