"""Builds the message that a device writes about one pass before its camera.

The message is a dict with the wire's Chinese keys. Some plates cannot be read, some are misread,
and some cars have none; all other imperfections are in `faults`.
"""

from __future__ import annotations

import base64
import random
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from bus.contracts.keys import NO_PLATE, UNREADABLE
from bus.domain.plate_candidates import PLATE_KEY, WEIGHT_KEY, PlateCandidate, read_candidates
from ingest.senders.simulator import names
from ingest.senders.simulator.plate_misreader import MisreadPlate, PlateMisreader
from ingest.senders.simulator.population import Vehicle, captured_feature, make_person
from ingest.senders.simulator.traffic import Pass

UNREADABLE_SHARE = 0.02
SCRIPTED_SHARE = 0.5  # of the passes of a car that is misread by script
NO_PLATE_SHARE = 0.008
FIELD_UNREAD_SHARE = 0.03  # one of the lesser fields cannot be read
CONFIDENCES_KEY, CANDIDATES_KEY = "车牌逐字置信度", "车牌候选"
UNSURE, SURE = 50, 99
"""What a camera says of a character that it misreads by script, and of the others."""
DEVICE_KEY = "设备型号"  # a key of the vendor's own: unknown keys must survive the whole way

Message = dict[str, object]


class TimestampWriter:
    """Writes epoch milliseconds as devices of one zone do: local time, no zone, milliseconds."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._second = -1
        self._text = ""

    def text(self, at_ms: int) -> str:
        """`2017-08-24 17:25:34.123`"""
        second, milliseconds = divmod(at_ms, 1000)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, self._zone).strftime("%Y-%m-%d %H:%M:%S")
        return f"{self._text}.{milliseconds:03d}"


class RecordBuilder:
    """Writes the messages of one run. Deterministic for the seed and the order of passes."""

    def __init__(self, seed: int, zone: ZoneInfo, misread_share: float = 0.0) -> None:
        self._seed = seed
        self._misread_share = misread_share
        self._misread_rng = random.Random(f"misread:{seed}")
        self._misreader = PlateMisreader(self._misread_rng)
        self._rng = random.Random(f"records:{seed}")
        self._noise = np.random.default_rng((seed, 7))
        self._clock = TimestampWriter(zone)

    def message(self, seen: Pass, record_number: str, clock_ms: int) -> Message:
        """The message about one pass; `clock_ms` is what the camera's own clock says."""
        message: Message = {
            "卡口编号": seen.camera.checkpoint_id,
            "抓拍时间": self._clock.text(clock_ms),
            "抓拍设备地址": seen.camera.camera_ip,
        }
        if seen.camera.recognizer_ip:
            message["后端图片识别服务器地址"] = seen.camera.recognizer_ip
        message["记录编号"] = record_number
        if seen.vehicle is not None:
            self._vehicle(message, seen, seen.vehicle)
        else:
            self._face(message, seen.person)
        return message

    def _vehicle(self, message: Message, seen: Pass, vehicle: Vehicle) -> None:
        rng = self._rng
        message |= {
            "车牌号码": vehicle.plate_number,
            "车牌颜色": vehicle.plate_color,
            "车辆颜色": vehicle.vehicle_color,
            "车型类别": vehicle.vehicle_type,
            "车辆品牌": vehicle.brand,
            "车系": vehicle.series,
            "年检标识": _yes(vehicle.inspection_sticker),
            "纸巾盒": _yes(vehicle.tissue_box),
            "驾驶位是否系安全带": _yes(rng.random() < 0.96),
            "副驾驶位是否系安全带": _yes(rng.random() < 0.8),
            "车道编号": 1 + rng.randrange(3),
            "行驶方向": names.DIRECTIONS[seen.heading],
            "车速": seen.speed_kmh,
            DEVICE_KEY: "YJ-900V",
        }
        self._recognise_plate(message, vehicle)

    def _recognise_plate(self, message: Message, vehicle: Vehicle) -> None:
        draw = self._rng.random()
        if draw < UNREADABLE_SHARE:
            message["车牌号码"] = message["车牌颜色"] = UNREADABLE
        elif draw < UNREADABLE_SHARE + NO_PLATE_SHARE:
            message["车牌号码"] = NO_PLATE
        else:
            sure = 88 + self._rng.randrange(12)
            message["车牌置信度"] = sure
            read = self._reading(vehicle, sure)
            message["车牌号码"] = read.text
            message[CONFIDENCES_KEY] = ",".join(
                f"{sign}-{own}" for sign, own in zip(read.text, read.sure, strict=True)
            )
            candidates = self._misreader.candidates(read)
            if candidates:
                message[CANDIDATES_KEY] = [
                    {PLATE_KEY: plate, WEIGHT_KEY: weight} for plate, weight in candidates
                ]
        if draw > 1 - FIELD_UNREAD_SHARE:
            message[self._rng.choice(("车系", "纸巾盒", "副驾驶位是否系安全带"))] = UNREADABLE

    def _reading(self, vehicle: Vehicle, sure: int) -> MisreadPlate:
        """What the camera makes of a plate that it can read."""
        plate, rng = vehicle.plate_number, self._misread_rng
        if vehicle.read_as and rng.random() < SCRIPTED_SHARE:
            pairs = zip(plate, vehicle.read_as, strict=True)
            said = tuple(SURE if true == seen else UNSURE for true, seen in pairs)
            return MisreadPlate(vehicle.read_as, said)
        if self._misread_share and rng.random() < self._misread_share:
            return self._misreader.misread(plate)
        return MisreadPlate(plate, (sure,) * len(plate))

    def _face(self, message: Message, number: int) -> None:
        person = make_person(self._seed, number)
        about = person.age + self._rng.randrange(-2, 3)
        feature = captured_feature(person, self._noise)
        message |= {
            "性别": person.gender,
            "年龄下限": max(0, about - 4),
            "年龄上限": about + 4,
            "眼镜": _yes(person.glasses),
            "口罩": _yes(person.mask),
            "帽子": _yes(person.hat),
            "人脸特征": base64.b64encode(feature.tobytes()).decode("ascii"),
            "特征模型": names.FEATURE_MODEL,
        }


def further_candidates(message: Message) -> tuple[PlateCandidate, ...]:
    """That count for a rule: none of a plate that was not read at all."""
    if message.get("车牌号码") in (None, "", UNREADABLE, NO_PLATE):
        return ()
    return read_candidates(message.get(CANDIDATES_KEY)).candidates


def _yes(value: bool) -> str:
    return "是" if value else "否"
