"""What is wrong with a record, in words for the people who repair it: English and Chinese.

In: a `Reason`. Out: texts. Never: deciding. One table for the edge's answers, `check-message` and
the console.
"""

from __future__ import annotations

from bus.contracts.headers import Reason

TEXTS: dict[Reason, tuple[str, str]] = {
    Reason.NOT_UTF8: (
        "The message is not UTF-8; many devices send GB18030 unless told otherwise.",
        "消息不是 UTF-8 编码；许多设备默认发送 GB18030，请改为 UTF-8。",
    ),
    Reason.NOT_JSON: ("The message is not JSON.", "消息不是合法的 JSON。"),
    Reason.NOT_AN_OBJECT: (
        "A record is a JSON object { … } with the contract's keys.",
        "一条记录必须是包含约定键的 JSON 对象 { … }。",
    ),
    Reason.TOO_LARGE: (
        "The record is larger than allowed; pictures belong beside it, not inside other fields.",
        "记录超过允许的大小；图片应随记录另行发送，不要放在其他字段里。",
    ),
    Reason.NO_CHECKPOINT: (
        "卡口编号 (the checkpoint) is missing or unread.",
        "缺少卡口编号，或未识别。",
    ),
    Reason.NO_TIME: ("抓拍时间 (the capture time) is missing.", "缺少抓拍时间。"),
    Reason.BAD_TIME: (
        "抓拍时间 must be local time as 2017-08-24 17:25:34 or 2017-08-24 17:25:34.123.",
        "抓拍时间必须是本地时间，格式如 2017-08-24 17:25:34 或 2017-08-24 17:25:34.123。",
    ),
    Reason.BAD_VALUE: (
        "A known field has a value of a wrong type or length.",
        "已知字段的值类型或长度不正确。",
    ),
    Reason.ALL_UNREADABLE: (
        "All ten recognition fields read 识别异常: nothing was recognised.",
        "十个识别字段全部为“识别异常”：没有识别出任何内容。",
    ),
    Reason.NO_PICTURE_OR_FEATURE: (
        "A face record needs a picture (人脸图片地址, 场景图片地址) or a feature (人脸特征).",
        "人脸记录必须有图片（人脸图片地址、场景图片地址）或人脸特征。",
    ),
}


def texts(reason: str) -> tuple[str, str]:
    """(English, Chinese) of a reason's value; a reason of a later release speaks for itself."""
    try:
        return TEXTS[Reason(reason)]
    except ValueError:
        return reason, reason
