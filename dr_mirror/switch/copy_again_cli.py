"""The command `mirror copy-anew`.

In: settings, the mirror's status, a topic. Out: steps as they are done, files; exit status 1 where
it was refused or is not finished. Shell: `copy_again`. Never: a site that the mirror does not copy
to.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json
from bus.contracts.mirror_status import MirrorStatus
from bus.errors import BusError, ErrorCode
from bus.runtime.wall_clock import now_ms
from dr_mirror.status.status_file import FRESH_MS, StatusUnavailable, read_status, status_path
from dr_mirror.switch.copy_again import CopyAgain
from dr_mirror.switch.site_client import EpochRefused, SiteClient
from dr_mirror.switch.steps import SwitchRefused, SwitchUnfinished
from dr_mirror.topics.states import Language

_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "kept": "in a file", "deleted": "deleted at the target", "copied": "copied anew",
        "refused": "Nothing has changed.",
        "old": "the mirror's status is {age} s old: it must run; see: databus logs mirror",
        "ordinary": "an ordinary target has no copies that are read-only: delete the topic there, "
        "and the mirror copies it from the beginning",
        "away": "no address of [mirror] is that of cluster {cluster}, to which the mirror copies",
        "done": "{topic}: {records} records of the old topic are in {files} files; the new one is "
        "copied. databus replay FILE sends a file's records again",
    },
    "zh": {
        "kept": "已写入文件", "deleted": "已在目标端删除", "copied": "已重新开始复制",
        "refused": "未作任何更改。",
        "old": "镜像状态已是 {age} 秒前的:镜像必须在运行;请看:databus logs mirror",
        "ordinary": "普通目标端没有只读副本:请删除该处主题,镜像将从头复制",
        "away": "[mirror] 的地址中没有镜像的目标集群 {cluster}",
        "done": "{topic}:旧主题的 {records} 条记录已写入 {files} 个文件;新主题正在复制。"
        "databus replay FILE 可重新发送文件中的记录",
    },
}  # fmt: skip


@report_errors
def copy_again(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(help="Its name at the source.")],
    files: Annotated[
        bool,
        typer.Option(
            "--files/--without-files", help="Keep what the target holds of the old topic in files."
        ),
    ] = True,
    timeout_s: Annotated[float, typer.Option(help="How long each step may wait.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Copy a topic that was deleted and created again at the source, from its beginning."""
    site, settings = ctx.obj.site, ctx.obj.mirror
    texts = _TEXTS[site.language]

    def on_step(step: str, detail: str) -> None:
        if not as_json:
            typer.echo(f"{texts[step]}: {detail}")

    def fresh_status() -> MirrorStatus:
        found = read_status(status_path(site))
        age_ms = now_ms() - found.at_ms
        if age_ms > FRESH_MS:
            raise StatusUnavailable(texts["old"].format(age=age_ms // 1000))
        return found

    try:
        if settings.target_api != "mirror_append":
            raise StatusUnavailable(texts["ordinary"])
        done = CopyAgain(
            _target(ctx, fresh_status().target_cluster_id, texts["away"]), fresh_status,
            topic=topic, name=settings.names.at_target(topic),
            folder=site.data_path / "mirror" / "kept", on_step=on_step, timeout_s=timeout_s,
        ).run(with_files=files)  # fmt: skip
    except SwitchRefused as error:
        for one in error.obstacles:
            typer.echo(f"{one.topic}: {one.text}", err=True)
        typer.echo(texts["refused"], err=True)
        raise typer.Exit(1) from None
    except (SwitchUnfinished, EpochRefused, StatusUnavailable, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        word = texts["done"].format(topic=topic, records=done.records, files=len(done.files))
        typer.echo(word)


def _target(ctx: typer.Context, cluster_id: str, away: str) -> SiteClient:
    """The site that the mirror copies to now. Raises BusError where none of [mirror] is it."""
    for name, bus in ctx.obj.mirror.bus_by_alias.items():
        found = SiteClient(name, bus)
        ctx.call_on_close(found.close)
        try:
            found.refresh()
        except BusError:
            continue
        if found.cluster_id == cluster_id:
            return found
    raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, away.format(cluster=cluster_id))
