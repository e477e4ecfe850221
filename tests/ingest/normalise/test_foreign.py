"""Messages of other makers are recognised by their shape, and their senders get an answer that says
so."""

from __future__ import annotations

import json
from urllib.parse import urlencode

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
from tests.ingest.edge.camera_form import CAMERA_FORM

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


FORM = b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n--%b--\r\n'


@pytest.mark.parametrize(("maker", "message"), MESSAGES)
@pytest.mark.parametrize("name", [b"json", b"anpr.xml", b""])
def test_makers_are_recognised_in_forms_as_in_plain_bodies(
    maker: str, message: dict[str, object], name: bytes
) -> None:
    """In a form, in a form within a form, in one that is cut off, in one of a browser's kind."""
    value = json.dumps(message, ensure_ascii=False).encode()
    form = FORM % (b"b1", name, value, b"b1")
    assert maker_of(form) == maker
    assert maker_of(FORM % (b"outer", b"x", form, b"outer")) == maker
    assert maker_of(form[: -len(b"\r\n--b1--\r\n")]) == maker
    assert maker_of(form.replace(b"\r\n", b"\n")) == maker
    assert maker_of(b"POST / HTTP/1.1\r\nHost: e\r\n\r\n" + form) == maker
    assert maker_of(urlencode({"json": value}).encode()) == maker


def test_check_message_names_the_maker_of_a_form_and_no_encoding() -> None:
    """A camera's push holds a picture, so it is not UTF-8: it was told to mind its encoding."""
    (fault,) = explain(CAMERA_FORM, "vehicle", "Asia/Shanghai")
    assert (fault.level, fault.reason) == ("error", "not-utf8")
    assert HIKVISION in fault.message
    assert HIKVISION in fault.message_zh
    assert "docs/how-to-send.md" in fault.message
    assert "UTF-8" not in fault.message
    assert "GB18030" not in fault.message


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (FORM % (b"b", b"record", '{"卡口编号": "c"}'.encode(), b"b"), "it is a multipart form"),
        (b"\xff\xd8\xff\xe0abcd", "the bytes of a picture"),
        (b'{"plate": "x", "time": 5}', '{"卡口编号": "330100#6"'),
        (b"{}", "docs/how-to-send.md"),
    ],
)
def test_what_is_none_of_our_messages_is_told_what_to_send(value: bytes, told: str) -> None:
    """One error with the remedy, instead of an encoding or a list of all that is missing."""
    (fault,) = explain(value, "vehicle", "Asia/Shanghai")
    assert told in fault.message
    row = normalise(value, "vehicle", Envelope(received_at_ms=0, record_id="x"), None, "UTC")
    assert isinstance(row, RejectedRow)
    assert row.reason == fault.reason


def test_the_example_of_check_message_is_a_record() -> None:
    """What a sender is told to send is accepted."""
    (fault,) = explain(b'{"a": 1}', "vehicle", "Asia/Shanghai")
    example = fault.message[fault.message.index('{"') : fault.message.index("}") + 1]
    assert explain(example.encode(), "vehicle", "Asia/Shanghai") == [
        one for one in explain(example.encode(), "vehicle", "UTC") if one.level == "warning"
    ]
