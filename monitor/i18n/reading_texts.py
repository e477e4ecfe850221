"""Texts of misread plates: what was meant, what it costs. The same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "detail.misread": "误读",
    "reading.misread": "识别为 {read}，目标为 {plate}，代价 {price}（上限 {highest}）",
}

EN: dict[str, str] = {
    "detail.misread": "Misread",
    "reading.misread": "read {read}, meant {plate}, price {price} of at most {highest}",
}
