"""What is generated is spoken by somebody, and what nobody speaks is not generated."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from broker.handlers.registry import advertised_ranges
from bus.errors import ErrorCode
from bus.protocol.apis import APIS
from bus.protocol.frames import decode_request, request_header
from bus.protocol.generate import TARGET
from bus.protocol.generator.parse import read_apis, read_logs
from bus.protocol.generator.selection import NOT_GENERATED, is_generated
from bus.protocol.wire import ProtocolError
from deploy.paths import PACKAGES, PROJECT_ROOT
from tests.bus.protocol.test_golden_frames import EXCHANGES, golden

GENERATED = "bus.protocol.generated"


def imported() -> set[str]:
    """Modules of the generated package that product or tests import by name."""
    found = set()
    for folder in (*PACKAGES, "tests"):
        for path in (PROJECT_ROOT / folder).rglob("*.py"):
            if path.parent == TARGET:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
                    found |= {name for name in names if name.startswith(GENERATED + ".")}
    return {name.split(".")[3] for name in found}


def recorded() -> set[str]:
    """Modules whose requests clients and Apache Kafka have exchanged in a recording."""
    keys = {entry["api"] for recording in EXCHANGES for entry in golden(recording)}
    return {str(APIS[key].module_name) for key in keys}


def test_every_generated_module_is_imported_or_reads_a_recorded_exchange() -> None:
    """Nobody imports it: it need not be there."""
    modules = {path.stem for path in Path(TARGET).glob("*.py")} - {"__init__"}
    assert modules - imported() - recorded() == set()


def test_every_line_of_the_list_leaves_a_table_out() -> None:
    names = [api.name for api in read_apis()]
    names += [message.name for messages in read_logs().values() for message in messages]
    stale = [p for p in NOT_GENERATED if not any(fnmatchcase(name, p) for name in names)]
    assert stale == []


def test_everything_that_a_broker_advertises_is_generated() -> None:
    assert [APIS[key].name for key in advertised_ranges() if not is_generated(APIS[key].name)] == []


@pytest.mark.parametrize("info", [one for one in APIS.values() if one.module_name is None], ids=lambda one: one.name)
def test_a_request_that_nobody_speaks_is_an_unsupported_version(info: Any) -> None:
    """Its header is read; asking for its body is the same error as an unknown API's."""
    head = info.key.to_bytes(2, "big") + info.last_version.to_bytes(2, "big")
    frame = head + bytes(4) + b"\xff\xff" + b"\0"
    assert request_header(frame)[0].api_key == info.key
    with pytest.raises(ProtocolError, match=info.name) as raised:
        decode_request(frame)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
