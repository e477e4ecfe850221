"""Chinese keys of the wire and their English attributes, one table per message.

In/out: names only. Never: parsing (that is `ingest.normalise`). For vendors: docs/how-to-send.md.
"""

from __future__ import annotations

UNREADABLE = "识别异常"
NO_PLATE = "无车牌"

PLACE_AND_TIME: dict[str, str] = {
    "卡口编号": "checkpoint_id",
    "抓拍时间": "captured_at",
    "入库时间": "stored_at",
    "抓拍设备地址": "camera_ip",
    "后端图片识别服务器地址": "recognizer_ip",
    "记录编号": "sender_record_id",
    "设备流水号": "device_sequence",
}

# The ten recognition fields of Q-0: a record is invalid when all of them read 识别异常.
RECOGNITION: dict[str, str] = {
    "车牌号码": "plate_number",
    "车牌颜色": "plate_color",
    "车辆颜色": "vehicle_color",
    "车型类别": "vehicle_type",
    "车辆品牌": "vehicle_brand",
    "车系": "vehicle_series",
    "年检标识": "inspection_sticker",
    "纸巾盒": "tissue_box",
    "驾驶位是否系安全带": "driver_belt",
    "副驾驶位是否系安全带": "passenger_belt",
}

VEHICLE: dict[str, str] = {
    **PLACE_AND_TIME,
    **RECOGNITION,
    "车道编号": "lane_id",
    "行驶方向": "direction",
    "车速": "speed_kmh",
    "车牌置信度": "plate_confidence",
    "车牌逐字置信度": "plate_character_confidences",
    "车牌候选": "plate_candidates",
    "车辆图片地址": "vehicle_picture_url",
    "车牌图片地址": "plate_picture_url",
    "场景图片地址": "scene_picture_url",
}

FACE: dict[str, str] = {
    **PLACE_AND_TIME,
    "性别": "gender",
    "年龄下限": "age_from",
    "年龄上限": "age_to",
    "眼镜": "glasses",
    "口罩": "mask",
    "帽子": "hat",
    "人脸特征": "face_feature",
    "特征模型": "feature_model",
    "人脸图片地址": "face_picture_url",
    "场景图片地址": "scene_picture_url",
}

# Tracks found in films by `recognise` and by the video issue; class is person, or mover with
# `目标类别` unknown.
VIDEO: dict[str, str] = {
    **PLACE_AND_TIME,
    "目标类别": "target_class",
    "目标编号": "track_id",
    "出现时间": "first_seen_at",
    "消失时间": "last_seen_at",
    "目标框": "box",
    "置信度": "confidence",
    "识别方式": "recognised_by",
    "视频地址": "video_url",
    "目标图片地址": "target_picture_url",
    "场景图片地址": "scene_picture_url",
}

# Pictures a sender may put inside a record as base64; the edge moves them to the picture store
# (I-7).
INLINE_PICTURES: dict[str, str] = {
    "车辆图片": "车辆图片地址",
    "车牌图片": "车牌图片地址",
    "场景图片": "场景图片地址",
    "人脸图片": "人脸图片地址",
    "目标图片": "目标图片地址",
}
