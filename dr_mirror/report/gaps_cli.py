"""The command `mirror gaps`: devices that number their records, and numbers that the new primary
lacks.

In: the report of the newest switch, the records around it. Out: a table for people, JSON for
scripts. Never: a device that does not number its records; their senders' counts tell of those.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from bus.cli.errors import report_errors
from bus.cli.show import AsJson, print_json, screen
from bus.client.admin.cluster_admin import ClusterAdmin
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from dr_mirror.report.plan.sequence_gaps import SequenceGap, sequence_gaps
from dr_mirror.report.report_cli import newest_of, statements_of
from dr_mirror.report.sequence_reader import ReadRecords, read_numbered
from dr_mirror.settings import MirrorSettings
from dr_mirror.status.not_known import not_known_yet
from dr_mirror.topics.states import Language

MINUTE_MS = 60_000
_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "title": "Devices of which the new primary lacks records, by their own numbers",
        "camera": "camera", "kind": "kind", "all": "all kinds", "present": "there",
        "missing": "missing", "ranges": "numbers",
        "read": "{read} records around the switch were read, {numbered} of them are numbered.",
        "none": "Between the numbers of these devices none is missing.",
        "nothing": "no record around the switch has a number of its device",
        "not_whole": "That was too much for one look: take fewer --minutes.",
        "away": "the new primary, cluster {cluster}, does not answer at an address of [mirror]",
        "reading": "reading",
    },
    "zh": {
        "title": "按设备流水号,新主站点缺少记录的设备",
        "camera": "设备", "kind": "类别", "all": "所有类别", "present": "已有", "missing": "缺少",
        "ranges": "流水号", "read": "切换前后共读取 {read} 条记录,其中 {numbered} 条带流水号。",
        "none": "这些设备的流水号之间没有缺失。",
        "nothing": "切换前后没有带设备流水号的记录",
        "not_whole": "数据过多,请减小 --minutes。",
        "away": "[mirror] 的地址上没有新主站点(集群 {cluster})的应答",
        "reading": "正在读取",
    },
}  # fmt: skip


@report_errors
def gaps(
    ctx: typer.Context,
    minutes: Annotated[
        int, typer.Option(min=1, max=1440, help="So long before and after the switch.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Name devices that number their records and of which the new primary lacks some."""
    language = ctx.obj.site.language
    texts = _TEXTS[language]
    forced = statements_of(newest_of(ctx.obj.site), language)[0]
    bus = _bus_of(ctx.obj.mirror, forced.new)
    if bus is None:
        raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, texts["away"].format(cluster=forced.new))
    known_ms = [one.heard_ms for one in forced.partitions if one.heard_ms >= 0]
    first_ms = min([forced.at_ms, *known_ms]) - minutes * MINUTE_MS
    read = _read(bus, first_ms, forced.at_ms + minutes * MINUTE_MS, texts["reading"])
    found = sequence_gaps(read.numbered)
    if as_json:
        print_json({
            "read": read.read, "numbered": len(read.numbered), "is_whole": read.is_whole,
            "gaps": msgspec.to_builtins(found),
        })  # fmt: skip
    else:
        _show_read(read, found, texts)
    if not read.numbered:
        raise not_known_yet(language, texts["nothing"])


def _show_read(read: ReadRecords, found: list[SequenceGap], texts: dict[str, str]) -> None:
    if read.numbered:
        _show(found, texts)
    typer.echo(texts["read"].format(read=read.read, numbered=len(read.numbered)))
    if not read.is_whole:
        typer.echo(texts["not_whole"])


def _bus_of(settings: MirrorSettings, cluster_id: str) -> BusSettings | None:
    """Which of both is that cluster; the lost one does not answer."""
    for bus in (settings.source_bus, settings.target_bus):
        admin = ClusterAdmin(bus, "databus")
        try:
            if admin.cluster_id() == cluster_id:
                return bus
        except BusError:
            continue
        finally:
            admin.close()
    return None


def _read(bus: BusSettings, first_ms: int, end_ms: int, word: str) -> ReadRecords:
    columns = SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}")
    with Progress(*columns, console=screen(), transient=True) as progress:
        task = progress.add_task(word, total=None)
        return read_numbered(
            bus, first_ms, end_ms, lambda read: progress.update(task, completed=read)
        )


def _show(found: list[SequenceGap], texts: dict[str, str]) -> None:
    if not found:
        typer.echo(texts["none"])
        return
    columns = ("camera", "kind", "present", "missing", "ranges")
    table = Table(*(texts[each] for each in columns), title=texts["title"], title_justify="left")
    for one in found:
        ranges = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in one.ranges)
        row = [one.camera_ip, one.kind or texts["all"], str(one.present), str(one.missing), ranges]
        table.add_row(*map(Text, row))
    screen().print(table)
