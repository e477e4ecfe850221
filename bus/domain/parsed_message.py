"""The bytes of one message and what is read of them: each way of reading happens once. Pure.

In: bytes as a device sent them. Out: its typed fields, its whole object, its values' own bytes.
Never: deciding whether it is valid; a second look at the same bytes, however many ask.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bus.contracts.headers import Reason
from bus.domain.device_message import DeviceMessage, Unreadable, read, read_object

_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ParsedMessage:
    """Handed on instead of the bytes. What it gives is shared by all who read it: they change
    nothing."""

    __slots__ = ("_object", "_raw_fields", "_why_unreadable", "_wire", "kind", "value")

    def __init__(self, value: bytes, kind: str) -> None:
        self.value = value
        self.kind = kind
        self._wire: DeviceMessage | None = None
        self._object: dict[str, Any] | None = None
        self._raw_fields: dict[str, msgspec.Raw] | None = None
        self._why_unreadable: tuple[Reason, str] | None = None

    def wire(self) -> DeviceMessage:
        """The fields we look at, of its kind; raises `Unreadable`."""
        if self._wire is None:
            self._raise_if_unreadable()
            self._wire = read(self.value, self.kind, self.object)
        return self._wire

    def object(self) -> dict[str, Any]:
        """All of it; raises `Unreadable`."""
        self._raise_if_unreadable()
        if self._object is None:
            try:
                self._object = read_object(self.value)
            except Unreadable as error:  # itself it would hold the frames that hold this message
                self._why_unreadable = error.reason, str(error)
                raise
        return self._object

    def raw_fields(self) -> dict[str, msgspec.Raw]:
        """Key -> the very bytes of its value; empty of what is no object."""
        if self._raw_fields is None:
            try:
                self._raw_fields = _RAW_FIELDS.decode(self.value)
            except (msgspec.DecodeError, ValueError, RecursionError):
                self._raw_fields = {}
        return self._raw_fields

    def _raise_if_unreadable(self) -> None:
        if self._why_unreadable is not None:
            raise Unreadable(*self._why_unreadable)
