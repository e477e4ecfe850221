"""Random messages of any layout, for the property tests of the codec."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from bus.protocol.generator.layout import FieldSlot, Layout, layout_of
from bus.protocol.generator.model import SchemaMessage
from bus.protocol.generator.parse import KAFKAS_APIS, PRIVATE_APIS, read_apis, read_logs
from bus.protocol.generator.selection import is_generated
from bus.protocol.generator.types import snake

WORDS = ["", "a", "京A12345", "data.vehicle", "x" * 130, "ключ", "é" * 70]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}


class Codec(NamedTuple):
    """One message with its generated class and functions."""

    message: SchemaMessage
    module: ModuleType
    decoders: dict[int, Callable[[Any, int], tuple[Any, int]]]
    encoders: dict[int, Callable[[Any, Any], None]]

    def encode(self, value: Any, version: int) -> bytes:
        """The bytes of a message."""
        chunks: list[Any] = []
        self.encoders[version](value, chunks.append)
        return b"".join(chunks)


def all_codecs() -> Iterator[Codec]:
    """Every message of the tables that is generated."""
    for api in read_apis():
        if not is_generated(api.name):
            continue
        module = import_module(f"bus.protocol.generated.{snake(api.name)}")
        yield Codec(api.request, module, module.REQUEST_DECODERS, module.REQUEST_ENCODERS)
        yield Codec(api.response, module, module.RESPONSE_DECODERS, module.RESPONSE_ENCODERS)
    for name, messages in read_logs().items():
        for message in filter(lambda one: is_generated(one.name), messages):
            module = import_module(f"bus.protocol.generated.{name}")
            stem = snake(message.name).upper()
            decoders, encoders = f"{stem}_DECODERS", f"{stem}_ENCODERS"
            yield Codec(message, module, getattr(module, decoders), getattr(module, encoders))


class Maker:
    """Makes random values. Elements of one array differ, because Kafka keeps some as sets.

    `small` keeps numbers where kio accepts them (it turns them into times, ports, error codes).
    """

    def __init__(self, dice: random.Random, *, small: bool = False) -> None:
        self.dice = dice
        self.small = small

    def message(self, codec: Codec, version: int) -> Any:
        """A random message of a version; the fields of other versions keep their defaults."""
        return self._struct(codec.module, layout_of(codec.message, version), 0)

    def _struct(self, module: ModuleType, layout: Layout, salt: int) -> Any:
        values = {slot.name: self._slot(module, slot, salt) for slot in layout.slots}
        for slot in layout.tagged:
            if self.dice.random() < 0.5:
                value = self._slot(module, slot, salt)
                # A tagged struct full of defaults is not written and is read as None.
                is_default = slot.struct is not None and value == getattr(module, slot.field.type)()
                values[slot.name] = None if is_default else value
        return getattr(module, layout.name)(**values)

    def _slot(self, module: ModuleType, slot: FieldSlot, salt: int) -> Any:
        if slot.nullable and self.dice.random() < 0.25:
            return None
        if slot.field.is_array:
            count = self.dice.choice([0, 1, 2, 3])
            return [self._one(module, slot, number) for number in range(count)]
        return self._one(module, slot, salt)

    def _one(self, module: ModuleType, slot: FieldSlot, salt: int) -> Any:
        if slot.struct is not None:
            return self._struct(module, slot.struct, salt)
        return self._scalar(slot.field.type, salt, slot.name)

    def _scalar(self, kind: str, salt: int, name: str) -> Any:
        if kind in ("string", "legacy_string"):
            return self.dice.choice(WORDS) + str(salt)
        if kind in ("bytes", "records"):
            return self.dice.randbytes(self.dice.choice([0, 1, 200])) + bytes([salt])
        if kind == "uuid":
            return bytes([salt]) + self.dice.randbytes(14) + b"\x01"
        if kind == "bool":
            return self.dice.random() < 0.5
        if kind == "float64":
            return self.dice.uniform(-1e9, 1e9)
        return self._number(kind, salt)

    def _number(self, kind: str, salt: int) -> int:
        if self.small:
            return 4 * self.dice.randrange(25) + salt
        bits, signed = BITS[kind], kind.startswith("int")
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 4) if signed else (0, (1 << bits) - 4)
        number = self.dice.choice([low, high, 0, self.dice.randrange(low, high)])
        return number - number % 4 + salt


@pytest.fixture(scope="session")
def codecs() -> list[Codec]:
    """Every message of the tables that is generated, with its functions."""
    return list(all_codecs())


@pytest.fixture(scope="session")
def messages_of_kafka() -> list[SchemaMessage]:
    """Every message of Kafka's in the tables, generated or not."""
    apis = [message for api in read_apis(KAFKAS_APIS) for message in (api.request, api.response)]
    return [*apis, *(message for messages in read_logs().values() for message in messages)]


@pytest.fixture(scope="session")
def codecs_of_kafka(codecs: list[Codec]) -> list[Codec]:
    """The messages that are Kafka's, without those of our private APIs."""
    private = {
        message.name
        for api in read_apis(PRIVATE_APIS)
        for message in (api.request, api.response)
    }
    return [codec for codec in codecs if codec.message.name not in private]


@pytest.fixture
def maker(dice: random.Random) -> Maker:
    """Random messages over the whole range of every type."""
    return Maker(dice)


@pytest.fixture
def small_maker(dice: random.Random) -> Maker:
    """Random messages with numbers from 0 to 99."""
    return Maker(dice, small=True)
