"""A gallery of the city's, and two people who walk through its entrances: one whose face is in it,
and one who resembles that person more than strangers do, and is not.

Expected alarms are computed here, not with `alarm.rules`, as in `watched_cars`: from the feature
that the camera has sent, by the cosine of each face by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bus.client.kafka.command_client import new_command_id
from bus.client.model import KeyedValue
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import GALLERY_KIND, FaceLine, ListCommand, base_key
from bus.domain.list_chunks import face_chunks
from ingest.senders.simulator import names
from ingest.senders.simulator.population import (
    FEATURE_DIMENSIONS,
    RESEMBLING_PERSON,
    WANTED_PERSON,
    make_person,
)
from ingest.senders.simulator.record_builder import Message
from ingest.senders.simulator.traffic import Traffic

WANTED_SHARE, RESEMBLING_SHARE = 0.005, 0.01
"""Of all people before cameras."""
THRESHOLD = 0.6
ABSENT = 5
"""Faces of the gallery whose people never come."""
_DATE = "2026-03-01"
_MODEL = FeatureModel(
    name=names.FEATURE_MODEL, dimensions=FEATURE_DIMENSIONS, measure="cosine", threshold=THRESHOLD
)


@dataclass(frozen=True)
class WantedFacesRule:
    """A gallery, which is a rule itself. `features`: of its faces, each of length 1."""

    list_id: str
    name: str
    features: tuple[NDArray[np.float32], ...]
    plate: str = ""
    """It is about no car."""

    @property
    def rule_id(self) -> str:
        """Of the rule that it is."""
        return f"list/{self.list_id}"

    def chunks(self) -> Iterator[KeyedValue]:
        """What stands on the topic of lists before the command."""
        for chunk in face_chunks(self._lines()):
            key = base_key(self.list_id, self._base, chunk.named.number)
            yield KeyedValue(key.encode(), chunk.value)

    def command(self, version: int) -> ListCommand:
        """What whoever imports it would ask for."""
        return ListCommand(
            op="put", list_id=self.list_id, version=version, name=self.name, severity="critical",
            kind=GALLERY_KIND, model=_MODEL, owner=names.RULE_AUTHOR, source="ingest simulate",
            date=_DATE, base=self._base,
            chunks=tuple(one.named for one in face_chunks(self._lines())),
            author=names.RULE_AUTHOR, issuer=names.RULE_AUTHOR, command_id=new_command_id(),
        )  # fmt: skip

    def matches(self, message: Message) -> bool:
        """Whether this record must raise the alarm."""
        if message.get("特征模型") != names.FEATURE_MODEL:
            return False
        try:
            sent = base64.b64decode(str(message.get("人脸特征")), validate=True)
            own = np.frombuffer(sent, dtype="<f4").astype(np.float64)
        except (binascii.Error, ValueError):
            return False
        if len(own) != FEATURE_DIMENSIONS:
            return False
        own /= np.linalg.norm(own)
        return any(float(face.astype(np.float64) @ own) >= THRESHOLD for face in self.features)

    @property
    def _base(self) -> str:
        joined = b"".join(face.tobytes() for face in self.features)
        return hashlib.sha256(joined).hexdigest()[:32]

    def _lines(self) -> Iterator[FaceLine]:
        return (
            FaceLine(number, f"P{number}", f"case {number}", _DATE, face.tobytes())
            for number, face in enumerate(self.features, start=2)
        )


def rule_of(seed: int) -> WantedFacesRule:
    """The gallery of a city."""
    people = (WANTED_PERSON, *(RESEMBLING_PERSON + 1 + at for at in range(ABSENT)))
    features = tuple(make_person(seed, number).feature for number in people)
    return WantedFacesRule(f"city-{seed}-wanted", "在逃人员库 wanted people", features)


def release(traffic: Traffic) -> None:
    """Let both walk through the city."""
    traffic.mix_in(WANTED_PERSON, WANTED_SHARE)
    traffic.mix_in(RESEMBLING_PERSON, RESEMBLING_SHARE)
