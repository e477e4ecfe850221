"""The deployment register: which checkpoint stands where, which device hangs at it, behind which
server (Q-3).

In: JSON text. Out: a frozen `Register` with look-ups by checkpoint and by device address.
Never: files (callers read them). `卡口编号` is opaque; its place comes only from here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import msgspec

from bus.contracts.travel_headings import Heading

Place: TypeAlias = tuple[float, float]
"""[latitude, longitude] in degrees (WGS 84)."""
Polygon: TypeAlias = tuple[Place, ...]
"""Corners in their order around it, the last one joined to the first."""


class District(msgspec.Struct, frozen=True, kw_only=True):
    """An administrative area; every checkpoint names the one it is in. `area`: what maps show of
    it, in one or several parts."""

    district_id: str
    name: str
    name_en: str
    area: tuple[Polygon, ...] = ()


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A crossing or entrance with its place in degrees (WGS 84)."""

    checkpoint_id: str
    name: str
    name_en: str
    district_id: str
    latitude: float
    longitude: float


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A camera. `recognizer_ip` is empty for a smart device (W-6); `kind` is vehicle or face.
    `area`: what it is responsible for, where that is not its checkpoint's place; `bearing`: where
    it looks, in degrees from north, clockwise; `lanes`: those that it sees, as its records call
    them; `headings`: where the traffic of each of these goes to, or one for all that it sees.
    `stream`: where its film comes from (rtsp://…, without name and password); `codec`: h264 or
    h265, as far as it is known."""

    camera_ip: str
    checkpoint_id: str
    kind: str
    recognizer_ip: str = ""
    area: Polygon = ()
    bearing: float | None = None
    lanes: tuple[str, ...] = ()
    headings: tuple[Heading, ...] = ()
    stream: str = ""
    codec: str = ""


class RoadPiece(msgspec.Struct, frozen=True, kw_only=True):
    """One way from a checkpoint to the next one along a road. `limit_kmh` 0: not known."""

    begin: str
    end: str
    length_m: float
    limit_kmh: int = 0


class Road(msgspec.Struct, frozen=True, kw_only=True):
    """A road as a line of [latitude, longitude], and its pieces between checkpoints, each in one
    direction."""

    name: str
    name_en: str
    line: tuple[Place, ...] = ()
    pieces: tuple[RoadPiece, ...] = ()


class Register(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that is deployed at one site."""

    site: str = "main"
    districts: tuple[District, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    devices: tuple[Device, ...] = ()
    roads: tuple[Road, ...] = ()

    @cached_property
    def checkpoint_by_id(self) -> dict[str, Checkpoint]:
        """Checkpoint by its id."""
        return {c.checkpoint_id: c for c in self.checkpoints}

    @cached_property
    def device_by_ip(self) -> dict[str, Device]:
        """Device by its address."""
        return {d.camera_ip: d for d in self.devices}

    def district_of(self, checkpoint_id: str) -> str:
        """The district id of a checkpoint; empty when the register does not know it."""
        checkpoint = self.checkpoint_by_id.get(checkpoint_id)
        return checkpoint.district_id if checkpoint else ""


def decode_register(text: bytes | str) -> Register:
    """Parse a register. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
    return msgspec.json.decode(text, type=Register)


def encode_register(register: Register) -> bytes:
    """Indented JSON, fit for an operator's editor."""
    return msgspec.json.format(msgspec.json.encode(register), indent=1)
