"""Texts of places and quiet times: the same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "watch.quiet_s": "静默时间（秒）",
    "watch.fault_quiet_time": "静默时间为 0（无）至 86400 秒",
    "detail.further": "后续经过",
    "detail.further_passages": "静默时间内另有 {count} 次",
}

EN: dict[str, str] = {
    "watch.quiet_s": "Quiet time (seconds)",
    "watch.fault_quiet_time": "The quiet time is 0 (none) to 86400 seconds",
    "detail.further": "Further passages",
    "detail.further_passages": "+ {count} within the quiet time",
}
