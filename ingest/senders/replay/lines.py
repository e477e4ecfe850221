"""One line of a file of recorded messages becomes one message with an identity.

In: a line's bytes, the file's identity, the line number. Out: `Recorded`. Never: files, clock.

Two kinds of lines, freely mixed:
  an envelope   {"kind": "vehicle", "id": "own-…", "record": {…}}; `id` may be missing; `"raw"` with
                base64 instead of `record` holds bytes that are no JSON
  a message     {"卡口编号": …} as devices write it; its kind is the one asked for, else found by
  its
                keys
Any other line is a message too: a bad one, as the classification will say.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from bus.domain.identity import sender_scoped_id
from bus.domain.kinds import KINDS, guess_kind


class Recorded(msgspec.Struct, frozen=True):
    """One message to send again. `record_id` is the same at every replay of the same file."""

    kind: str
    record_id: str
    body: bytes


class _Envelope(msgspec.Struct):
    kind: str
    id: str = ""
    record: msgspec.Raw = msgspec.Raw()  # empty: not there
    raw: str | None = None


_ENVELOPES = msgspec.json.Decoder(_Envelope)


def parse_line(line: bytes, kind: str, file: str, number: int) -> Recorded:
    """The message of one line; `kind` empty means: as the line says. Never fails."""
    envelope = _envelope(line)
    if envelope is None:
        return Recorded(kind or guess_kind(_object(line)), _own_identity(line, file, number), line)
    body = _body(envelope)
    record_id = envelope.id or _own_identity(body, file, number)
    return Recorded(envelope.kind, record_id, body)


def _envelope(line: bytes) -> _Envelope | None:
    try:
        envelope = _ENVELOPES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if envelope.kind not in KINDS or (not envelope.record and envelope.raw is None):
        return None
    return envelope


def _body(envelope: _Envelope) -> bytes:
    if envelope.raw is None:
        return bytes(envelope.record)
    try:
        return base64.b64decode(envelope.raw, validate=True)
    except (binascii.Error, ValueError):
        return envelope.raw.encode()  # not what it should be; sent as it is, and judged as that


def _object(body: bytes) -> dict[str, object]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _own_identity(body: bytes, file: str, number: int) -> str:
    """The sender's own number scoped by sender and device, else the place in the file."""
    found = _object(body)
    own, camera = found.get("记录编号"), found.get("抓拍设备地址")
    sender = found.get("后端图片识别服务器地址") or camera
    if isinstance(own, str | int) and own and isinstance(camera, str) and isinstance(sender, str):
        captured_at = str(found.get("抓拍时间", "")).strip()
        return sender_scoped_id(sender, camera, "replay", str(own), captured_at)
    return sender_scoped_id(file, "", "replay", str(number))
