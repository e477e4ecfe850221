"""What a person reads in a mail or an SMS, in Chinese or English. Pure.

In: the JSON of an alarm or an incident. Out: one line, and a few lines. Never: a control character
from what devices wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

import msgspec

from bus.contracts.alarms import (
    Alarm,
    Incident,
    ListedFace,
    ListedPlate,
    NoticeDigest,
    ReadingPrice,
)
from bus.domain.plates import plate_text

Language = Literal["zh", "en"]
MAX_LINE = 200  # of a subject; longer ones are cut by mail servers, and an SMS is shorter

_SEVERITIES = {
    "zh": {"info": "提示", "warning": "警告", "critical": "严重"},
    "en": {"info": "info", "warning": "warning", "critical": "critical"},
}
_KINDS = {
    "zh": {
        "latency": "延时超限", "quality": "质量下降", "backlog": "消息积压", "away": "无响应",
        "standing": "停滞", "filling": "空间不足", "silence": "无数据", "curve": "质量曲线偏离",
        "lost": "记录丢失", "missing": "记录缺失", "differs": "镜像内容不一致",
        "uncovered": "仅存于一个站点", "unconfirmed": "主站点待确认",
        "refused": "请求被拒绝", "overdue": "名单逾期未更新",
        "certificate": "证书即将到期",
    },
    "en": {
        "latency": "latency too high", "quality": "quality has fallen", "backlog": "backlog",
        "away": "does not answer", "standing": "stands still", "filling": "space runs out",
        "silence": "sends nothing", "curve": "quality curve", "lost": "records lost",
        "missing": "records missing", "differs": "the mirror differs",
        "uncovered": "at one site only", "unconfirmed": "primary site not confirmed",
        "refused": "requests refused", "overdue": "a list is overdue",
        "certificate": "a certificate ends",
    },
}  # fmt: skip
_WORDS = {
    "zh": {"emergency": "紧急布控告警",
           "alarm": "告警", "open": "故障开始", "closed": "故障结束", "time": "时间",
           "checkpoint": "卡口", "camera": "设备", "id": "编号", "detail": "详情",
           "again": "注意", "perhaps": "失联站点或恢复之前可能已发送过此通知",
           "digest": "恢复备份后汇总", "rule_minute": "同一规则一分钟内的更多告警",
           "alarms": "告警数", "incidents": "故障数",
           "from": "最早", "until": "最晚", "ids": "编号", "plate": "车牌存疑", "misread": "误读",
           "resembled": "相似人脸", "score": "相似度 {score:.3f}（阈值 {threshold:g}，{model}）",
           "meant": "目标为 {plate}，代价 {price:.2f}（上限 {highest:.2f}）",
           "list": "名单", "line": "第 {line} 行", "overdue": "逾期未更新",
           "doubtful": "连字符可能是分隔符，也可能表示未识别字符"},
    "en": {"emergency": "emergency alarm",
           "alarm": "alarm", "open": "incident begins", "closed": "incident ends", "time": "time",
           "checkpoint": "checkpoint", "camera": "device", "id": "id", "detail": "detail",
           "again": "note",
           "perhaps": "the lost site, or what ran before a restore, may have sent this before",
           "digest": "after a restore", "rule_minute": "more alarms of one rule in a minute",
           "alarms": "alarms", "incidents": "incidents",
           "from": "first", "until": "last", "ids": "ids",
           "plate": "doubtful plate", "misread": "misread",
           "resembled": "resembles", "score": "score {score:.3f}, threshold {threshold:g}, {model}",
           "meant": "{plate} is meant, price {price:.2f} of at most {highest:.2f}",
           "list": "list", "line": "line {line}", "overdue": "not renewed in time",
           "doubtful": "its hyphen may separate or stand for an unread character"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NoticeText:
    """One line, and all of it."""

    severity: str
    line: str
    text: str


def notice_text(body: bytes, language: Language, zone: tzinfo) -> NoticeText:
    """Raises `msgspec.DecodeError` for a body that is neither alarm, incident nor digest."""
    try:
        return _of_alarm(msgspec.json.decode(body, type=Alarm), language, zone)
    except msgspec.ValidationError:
        pass
    try:
        return _of_incident(msgspec.json.decode(body, type=Incident), language, zone)
    except msgspec.ValidationError:
        return _of_digest(msgspec.json.decode(body, type=NoticeDigest), language, zone)


def _of_alarm(alarm: Alarm, language: Language, zone: tzinfo) -> NoticeText:
    words = _WORDS[language]
    what = words["emergency"] if alarm.is_emergency else words["alarm"]
    target = alarm.resembled.entry if alarm.resembled else plate_text(alarm.plate_number)
    line = f"{what}: {alarm.rule_name or alarm.rule_id} {target}"
    rows = [
        (words["time"], _clock(alarm.captured_at_ms, zone)),
        (words["checkpoint"], alarm.checkpoint_id),
        (words["camera"], alarm.camera_ip),
        (words["id"], alarm.alarm_id),
        (words["plate"], words["doubtful"] if alarm.plate_is_doubtful else ""),
        (words["misread"], _meant(alarm.misread, words["meant"])),
        (words["list"], _listed(alarm.listed, words)),
        (words["resembled"], _face(alarm.resembled, words["score"])),
        (words["again"], words["perhaps"] if alarm.perhaps_sent_before else ""),
    ]
    return _composed(alarm.severity, line, rows, language)


def _meant(misread: ReadingPrice | None, text: str) -> str:
    return text.format_map(msgspec.structs.asdict(misread)) if misread else ""


def _listed(listed: ListedPlate | None, words: dict[str, str]) -> str:
    if listed is None:
        return ""
    named = f"{listed.name} ({listed.list_id})"
    line = words["line"].format(line=listed.line) if listed.line else ""
    overdue = words["overdue"] if listed.is_overdue else ""
    parts = (named, line, listed.note, listed.list_date, overdue)
    return ", ".join(filter(None, parts))


def _face(face: ListedFace | None, text: str) -> str:
    if face is None:
        return ""
    score = text.format_map(msgspec.structs.asdict(face))
    parts = (f"{face.list_id} {face.entry}", face.note, face.list_date, score)
    return ", ".join(filter(None, parts))


def _of_incident(incident: Incident, language: Language, zone: tzinfo) -> NoticeText:
    words = _WORDS[language]
    about = incident.detail.get("subject") or incident.camera_ip or incident.recognizer_ip
    line = f"{words[incident.state]}: {about} {_KINDS[language][incident.kind]}"
    rows = [
        (words["time"], _clock(incident.closed_at_ms or incident.opened_at_ms, zone)),
        (words["checkpoint"], incident.checkpoint_id),
        (words["camera"], incident.camera_ip),
        (words["detail"], ", ".join(f"{k}={v}" for k, v in incident.detail.items())),
        (words["id"], incident.incident_id),
        (words["again"], words["perhaps"] if incident.perhaps_sent_before else ""),
    ]
    return _composed(incident.severity, line, rows, language)


def _of_digest(digest: NoticeDigest, language: Language, zone: tzinfo) -> NoticeText:
    words = _WORDS[language]
    counts = f"{words['alarms']} {digest.alarms}, {words['incidents']} {digest.incidents}"
    rows = [
        (words["from"], _clock(digest.first_at_ms, zone)),
        (words["until"], _clock(digest.last_at_ms, zone)),
        (words["again"], words["perhaps"] if digest.perhaps_sent_before else ""),
        (words["ids"], ", ".join(digest.ids)),
    ]
    if digest.rule_id:
        title = f"{words['rule_minute']}: {digest.rule_name or digest.rule_id}, {digest.alarms}"
        return _composed(digest.severity, title, rows, language)
    return _composed(digest.severity, f"{words['digest']}: {counts}", rows, language)


def _composed(
    severity: str, line: str, rows: list[tuple[str, str]], language: Language
) -> NoticeText:
    title = f"[{_SEVERITIES[language].get(severity, severity)}] {line}"
    lines = [title, *(f"{name}: {value}" for name, value in rows if value)]
    return NoticeText(severity, _clean(title)[:MAX_LINE], "\n".join(map(_clean, lines)))


def _clean(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def _clock(at_ms: int, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")
