"""Texts of misread plates: what was meant, what it costs. The same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "detail.misread": "误读",
    "reading.candidate": "识别候选",
    "reading.weighed": "候选 {plate}（{weight}）",
    "attribute.plate_character_confidences": "车牌逐字置信度",
    "attribute.plate_candidates": "车牌候选",
    "reading.misread": "识别为 {read}，目标为 {plate}，代价 {price}（上限 {highest}）",
}

EN: dict[str, str] = {
    "detail.misread": "Misread",
    "reading.candidate": "Read as candidate",
    "reading.weighed": "candidate {plate} ({weight})",
    "attribute.plate_character_confidences": "Confidence per character",
    "attribute.plate_candidates": "Further candidates",
    "reading.misread": "read {read}, meant {plate}, price {price} of at most {highest}",
}
