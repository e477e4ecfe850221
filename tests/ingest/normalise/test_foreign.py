"""Messages of other makers are recognised by their shape, and their senders get an answer that says
so."""

from __future__ import annotations

import json

import pytest

from ingest.normalise import Envelope, normalise
from ingest.normalise.diagnostics import explain
from ingest.normalise.foreign import (
    AXIS,
    DAHUA,
    DEEPSTREAM,
    GAT_1400,
    HIKVISION,
    PLATE_RECOGNIZER,
    REKOR,
    maker_of,
)
from ingest.store.port import RejectedRow

MESSAGES = [
    (GAT_1400, {"MotorVehicleListObject": {"MotorVehicleObject": [{"PlateNo": "苏NF5676"}]}}),
    (GAT_1400, {"FaceListObject": {"FaceObject": [{"FaceID": "1"}]}}),
    (GAT_1400, {"SubscribeNotificationListObject": {"SubscribeNotificationObject": []}}),
    (GAT_1400, {"MotorVehicleObject": [{"PlateNo": "苏NF5676"}]}),
    (HIKVISION, {"EventNotificationAlert": {"eventType": "ANPR"}}),
    (HIKVISION, {"ipAddress": "10.0.0.1", "eventType": "ANPR", "ANPR": {"licensePlate": "x"}}),
    (DAHUA, {"Picture": {"Plate": {"PlateNumber": "x"}, "SnapInfo": {"DeviceID": "d"}}}),
    (REKOR, {"data_type": "alpr_group", "best_plate_number": "x"}),
    (REKOR, {"agent_uid": "u", "video_streams": [], "timestamp": 1}),
    (PLATE_RECOGNIZER, {"hook": {"event": "recognition"}, "data": {"results": []}}),
    (DEEPSTREAM, {"messageid": "u", "mdsversion": "1.0", "object": {"vehicle": {}}}),
    (DEEPSTREAM, {"version": "4.0", "@timestamp": "t", "sensorId": "s", "objects": ["1|2|3"]}),
    (AXIS, {"packetCounter": "1", "plateText": "x", "carState": "new"}),
]


@pytest.mark.parametrize(("maker", "message"), MESSAGES)
def test_check_message_says_whose_message_it_is(maker: str, message: dict[str, object]) -> None:
    """One error instead of a list of everything that is missing; in both languages."""
    value = json.dumps(message).encode()
    (fault,) = explain(value, "vehicle", "Asia/Shanghai")
    row = normalise(value, "vehicle", Envelope(received_at_ms=0, record_id="x"), None, "UTC")
    assert isinstance(row, RejectedRow)
    assert (fault.level, fault.reason) == ("error", row.reason)
    assert maker in fault.message
    assert maker in fault.message_zh


def test_an_alert_in_xml_is_known_too() -> None:
    """It is no JSON, but not nothing."""
    value = b'<?xml version="1.0" encoding="UTF-8"?>\n<EventNotificationAlert version="2.0">'
    (fault,) = explain(value, "vehicle", "Asia/Shanghai")
    assert (fault.reason, HIKVISION in fault.message, HIKVISION in fault.message_zh) == (
        "not-json", True, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [b"{}", b"[]", b"5", b"<html>", b"\xff", b'{"x": {"Plate": 1}}', b'{"Picture": 5}',
     '{"卡口编号": "c", "Face": 1, "FaceListObject": {}}'.encode()],
)  # fmt: skip
def test_ours_and_nobodys_are_not_taken_for_somebodys(value: bytes) -> None:
    """A key of ours makes a message ours, with any other key."""
    assert maker_of(value) == ""
