"""Texts of the watch list's preview: the same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "watch.preview": "预览",
    "watch.preview_begun": "正在查找最近 7 天的记录……",
    "watch.preview_read": "目前命中 {hits} 次，{places} 个卡口；已查看 {read} 条记录",
    "watch.preview_done": "最近 7 天：命中 {hits} 次，{places} 个卡口；共查看 {read} 条记录",
    "watch.preview_limit": "已查看 {read} 条记录，至 {day} 为止：命中 {hits} 次，{places} 个卡口",
    "watch.preview_stop": "停止",
}

EN: dict[str, str] = {
    "watch.preview": "Preview",
    "watch.preview_begun": "Looking through the last 7 days …",
    "watch.preview_read": "{hits} hits at {places} places so far; {read} records looked at",
    "watch.preview_done": "In the last 7 days: {hits} hits at {places} places; {read} records "
    "looked at",
    "watch.preview_limit": "Looked at {read} records, back to {day}: {hits} hits at {places} "
    "places",
    "watch.preview_stop": "Stop",
}
