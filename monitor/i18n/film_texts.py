"""Texts of what is found in films. The same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "attribute.target_class": "目标类别",
    "attribute.track_id": "目标编号",
    "attribute.recognised_by": "识别方式",
    "attribute.first_seen_at": "出现时间",
    "attribute.last_seen_at": "消失时间",
}

EN: dict[str, str] = {
    "attribute.target_class": "Class",
    "attribute.track_id": "Track",
    "attribute.recognised_by": "Found by",
    "attribute.first_seen_at": "First seen",
    "attribute.last_seen_at": "Last seen",
}
