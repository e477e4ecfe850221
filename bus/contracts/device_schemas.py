"""JSON Schemas of the messages devices write: vehicle, face, video. Written by hand, from the key
tables.

In: nothing. Out: schemas with descriptions in English and Chinese. Never: stricter in what it
requires than Q-0; what is optional may be absent, what is unknown is kept. Times of the contract
are local, without zone.
"""

from __future__ import annotations

from typing import Any

from bus.contracts import keys

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,9})?$"

Schema = dict[str, Any]


def _text(english: str, chinese: str, **more: Any) -> Schema:
    return {"type": "string", "description": f"{english} / {chinese}", **more}


def _number(english: str, chinese: str, low: float, high: float) -> Schema:
    return {
        "type": ["number", "string"],
        "description": f"{english} / {chinese}",
        "minimum": low,
        "maximum": high,
    }


def _free(english: str, chinese: str) -> Schema:
    return {"description": f"{english} / {chinese}"}


def _candidates(english: str, chinese: str) -> Schema:
    """The first five count; of those any that is not understood is ignored."""
    return {
        "type": ["array", "null"],
        "description": f"{english} / {chinese}",
        "items": {"type": "object", "properties": {
            "车牌号码": _text("plate, whole", "完整车牌"),
            "权重": {**_number("weight above 0, to 1 or to 100", "权重，大于 0", 0, 100),
                   "type": "number"},
        }, "required": ["车牌号码", "权重"]},
    }  # fmt: skip


_READ = {
    "卡口编号": _text(
        "checkpoint id, opaque",
        "卡口编号",
        pattern=r"\S",
        maxLength=256,
        **{"not": {"const": keys.UNREADABLE}},
    ),
    "抓拍时间": _text(
        "capture time, local time of the site; milliseconds wanted",
        "抓拍时间（本地时间，建议带毫秒）",
        pattern=TIME_PATTERN,
    ),
    "入库时间": _text("store time; added by the bus, ignored", "入库时间（由总线添加）"),
    "抓拍设备地址": _text("the camera's IP address", "抓拍设备 IP"),
    "后端图片识别服务器地址": _text("the recognition server's IP, if any", "识别服务器 IP（若有）"),
    "记录编号": _text("the sender's own id; retries keep it", "发送方记录编号，重发时不变"),
    "设备流水号": _free("running number of a smart device", "设备流水号"),
    "车牌号码": _text("plate; 无车牌 = none, 识别异常 = unread", "车牌号码"),
    "车牌颜色": _text("plate colour", "车牌颜色"),
    "车辆颜色": _text("vehicle colour", "车辆颜色"),
    "车型类别": _text("vehicle type", "车型类别"),
    "车辆品牌": _text("brand", "车辆品牌"),
    "车系": _text("series", "车系"),
    "年检标识": _text("inspection sticker: 是 / 否", "年检标识：是/否"),
    "纸巾盒": _text("tissue box: 是 / 否", "纸巾盒：是/否"),
    "驾驶位是否系安全带": _text("driver's belt: 是 / 否", "驾驶位是否系安全带：是/否"),
    "副驾驶位是否系安全带": _text("passenger's belt: 是 / 否", "副驾驶位是否系安全带：是/否"),
    "车道编号": _free("lane", "车道编号"),
    "行驶方向": _text("direction of travel", "行驶方向"),
    "车速": _number("speed, km/h", "车速（公里/小时）", 0, 400),
    "车牌置信度": _number("confidence of the plate, 0-1 or 0-100", "车牌置信度", 0, 100),
    "车牌逐字置信度": _free("confidence per character", "车牌逐字置信度"),
    "车牌候选": _candidates("further plates that the reader holds possible", "车牌识别的其他候选"),
    "车辆图片地址": _text("URL of the vehicle's picture", "车辆图片地址"),
    "车牌图片地址": _text("URL of the plate's picture", "车牌图片地址"),
    "场景图片地址": _text("URL of the scene's picture", "场景图片地址"),
    "性别": _text("gender", "性别"),
    "年龄下限": _number("age from", "年龄下限", 0, 150),
    "年龄上限": _number("age to", "年龄上限", 0, 150),
    "眼镜": _text("glasses", "眼镜"),
    "口罩": _text("mask", "口罩"),
    "帽子": _text("hat", "帽子"),
    "人脸特征": _text("feature: base64 of little-endian 32-bit floats", "人脸特征"),
    "特征模型": _text("name of the feature's model", "特征模型"),
    "人脸图片地址": _text("URL of the face's picture", "人脸图片地址"),
    "目标类别": _text("class of the target: person, or anything else", "目标类别：person 或其他"),
    "目标编号": _free("number of the track in its film", "目标编号"),
    "出现时间": _text("first seen, local time", "出现时间", pattern=TIME_PATTERN),
    "消失时间": _text("last seen, local time", "消失时间", pattern=TIME_PATTERN),
    "目标框": _free("box in the picture: x, y, width, height in pixels", "目标框（像素）"),
    "置信度": _number("confidence, 0-1 or 0-100", "置信度", 0, 100),
    "识别方式": _text("what found it: a model's name, or motion", "识别方式：模型名称或 motion"),
    "视频地址": _text("URL of the film", "视频地址"),
    "目标图片地址": _text("URL of the target's picture", "目标图片地址"),
}  # fmt: skip


def device_schemas() -> dict[str, Schema]:
    """Schema header's value -> schema."""
    return {
        "vehicle/1": _record("vehicle/1", "A vehicle passed / 车辆记录", keys.VEHICLE)
        | {"not": _all_unreadable()},
        "face/1": _record("face/1", "A face was seen / 人脸记录", keys.FACE)
        | {"anyOf": [_present(key) for key in ("人脸特征", "人脸图片地址", "场景图片地址")]},
        "video/1": _record("video/1", "A target of a film / 视频目标记录", keys.VIDEO),
    }


def _record(name: str, title: str, table: dict[str, str]) -> Schema:
    return {
        "$schema": DRAFT,
        "$id": f"urn:databus:{name}",
        "title": title,
        "type": "object",
        "required": ["卡口编号", "抓拍时间"],
        "properties": {key: _READ[key] for key in table},
        "additionalProperties": True,
    }


def _all_unreadable() -> Schema:
    """Q-0: all ten fields unread."""
    unread = {key: {"const": keys.UNREADABLE} for key in keys.RECOGNITION}
    return {"required": list(unread), "properties": unread}


def _present(key: str) -> Schema:
    readable = {"type": "string", "pattern": r"\S", "not": {"const": keys.UNREADABLE}}
    return {"required": [key], "properties": {key: readable}}
