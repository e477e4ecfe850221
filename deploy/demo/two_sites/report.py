"""The account over two sites for people, in the site's language, and for scripts.

In: both accounts. Out: stdout. Never: judging them.
"""

from __future__ import annotations

import msgspec

from deploy.demo.two_sites.balance import SitesReconciliation
from deploy.reconcile.balance import Reconciliation

_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "the account over two sites (records)",
        "by_edge": "acknowledged to cameras by the edge: {}",
        "directly": "acknowledged to cameras by a bus without an edge: {}",
        "stored_a": "stored or rejected at A, while it lived: {}",
        "stored_b": "stored at B: {}",
        "stored_b_after_switch": "of these after the switch: {}",
        "first_stored_ms": "first record that B took itself, in its store: {} ms after A's last "
        "acknowledgement",
        "folded": "compared in number only, ids not kept: {}",
        "known_missing": "known to be missing when B took over (all topics): {}",
        "sent_again": "of these sent again by the edge: {}",
        "lost_known": "lost, and named by the report of the switch: {}",
        "lost_unheard": "lost, acknowledged by A after it was heard last: {}",
        "alarms": "alarms at B: {expected} expected, {raised} raised, {missing} missing",
        "pictures": "pictures of alarms in B's own store: {there} of {count}",
        "fault": "does not balance: {}",
        "balanced": "the account over both sites balances, lost: {count}",
        "lost": "lost ({why}): {id}",
        "via_bus": "sent without an edge", "via_edge": "through the edge",
        "only_a": "at A, and no camera was told so",
    },
    "zh": {
        "title": "两个站点的对账(记录数)",
        "by_edge": "接入端已向摄像机确认:{}",
        "directly": "总线直接(不经接入端)已向摄像机确认:{}",
        "stored_a": "站点 A 停止前已入库或拒收:{}",
        "stored_b": "站点 B 已入库:{}",
        "stored_b_after_switch": "其中切换之后入库:{}",
        "first_stored_ms": "站点 B 自己接收的第一条记录入库:A 最后一次确认后 {} 毫秒",
        "folded": "编号未保留、只比较数量:{}",
        "known_missing": "B 接管时已知缺失(全部主题):{}",
        "sent_again": "其中接入端已重发:{}",
        "lost_known": "已丢失,切换报告已列出:{}",
        "lost_unheard": "已丢失,A 在最后获知之后确认:{}",
        "alarms": "站点 B 告警:应有 {expected},已发出 {raised},缺少 {missing}",
        "pictures": "站点 B 自己的图片库中的告警图片:{there} / {count}",
        "fault": "对账不平:{}",
        "balanced": "两个站点对账平衡,丢失:{count}",
        "lost": "丢失({why}):{id}",
        "via_bus": "未经接入端发送", "via_edge": "经接入端", "only_a": "仅在 A,未向摄像机确认",
    },
}  # fmt: skip
_NUMBERS = (
    "by_edge", "directly", "stored_a", "stored_b", "stored_b_after_switch", "first_stored_ms",
    "folded", "known_missing", "sent_again", "lost_known", "lost_unheard",
)  # fmt: skip


def show(found: SitesReconciliation, of_b: Reconciliation, language: str, *, as_json: bool) -> None:
    """Print it."""
    if as_json:
        plain = {**msgspec.to_builtins(found), "balanced": found.balanced, "lost": found.lost,
                 "site_b": msgspec.to_builtins(of_b)}  # fmt: skip
        print(msgspec.json.encode(plain).decode(), flush=True)
        return
    for text in lines(found, of_b, language):
        print(text, flush=True)


def lines(found: SitesReconciliation, of_b: Reconciliation, language: str) -> list[str]:
    """What is said, in order."""
    texts = _TEXTS[language]
    found_lines = [texts["title"]]
    for name in _NUMBERS:
        value = getattr(found, name)
        if value is not None:
            found_lines.append("  " + texts[name].format(value))
    found_lines.append(
        "  " + texts["alarms"].format(
            expected=of_b.alarms_expected, raised=of_b.alarms_raised,
            missing=len(of_b.alarms_missing),
        )
    )  # fmt: skip
    found_lines.append(
        "  " + texts["pictures"].format(there=found.pictures_at_b, count=found.pictures)
    )
    ways = (
        ("via_edge", found.lost_through_edge),
        ("via_bus", found.lost_directly),
        ("only_a", found.only_at_a),
    )
    found_lines += [
        texts["lost"].format(why=texts[why], id=each) for why, ids in ways for each in ids
    ]
    found_lines += [texts["fault"].format(fault) for fault in found.faults]
    if found.balanced:
        found_lines.append(texts["balanced"].format(count=len(found.lost)))
    return found_lines
